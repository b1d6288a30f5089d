"""How the tables of the catalog have come about, for Alembic."""

"""What Alembic runs: the migrations over a connection that the caller has begun to write on."""

from __future__ import annotations

from alembic import context

from holdfast.catalog.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transactional_ddl=True,
)
context.run_migrations()

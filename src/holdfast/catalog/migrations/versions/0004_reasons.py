"""Why results are not read everywhere.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the column."""
    op.add_column("results", sa.Column("reasons", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drops it."""
    op.drop_column("results", "reasons")

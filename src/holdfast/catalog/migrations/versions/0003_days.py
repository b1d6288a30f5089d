"""What happened each day, and when each result was used last and went.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the table and the columns."""
    op.create_table(
        "days",
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("user_name", sa.String(length=255), nullable=False),
        sa.Column("uses", sa.BigInteger(), nullable=False),
        sa.Column("read_bytes", sa.BigInteger(), nullable=False),
        sa.Column("saved_seconds", sa.Float(), nullable=False),
        sa.Column("kept", sa.BigInteger(), nullable=False),
        sa.Column("kept_bytes", sa.BigInteger(), nullable=False),
        sa.Column("produced_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("day", "user_name"),
    )
    op.add_column("results", sa.Column("last_used", sa.Float(), nullable=True))
    op.add_column("results", sa.Column("gone", sa.Float(), nullable=True))
    results = sa.table(
        "results",
        sa.column("number"),
        sa.column("created"),
        sa.column("last_used"),
        sa.column("used"),
    )
    op.execute(results.update().values(last_used=results.c.created))
    op.create_index("uses_by_time", "uses", ["used"], unique=False)
    op.create_index("results_by_size", "results", ["state", "storage", "bytes"], unique=False)
    op.create_index("results_that_went", "results", ["gone"], unique=False)


def downgrade() -> None:
    """Drops them."""
    op.drop_index("results_that_went", table_name="results")
    op.drop_index("results_by_size", table_name="results")
    op.drop_index("uses_by_time", table_name="uses")
    op.drop_column("results", "gone")
    op.drop_column("results", "last_used")
    op.drop_table("days")

"""Results, who holds them, who produces them, and who has read them.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "catalog",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "claims",
        sa.Column("storage", sa.String(length=64), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("dataset_id", sa.String(length=64), nullable=False),
        sa.Column("circle", sa.String(length=255), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("application", sa.String(length=32), nullable=True),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("until", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("storage", "environment", "dataset_id", "circle"),
    )
    op.create_table(
        "programs",
        sa.Column("application", sa.String(length=32), nullable=False),
        sa.Column("user_name", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("process", sa.Integer(), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.Column("alive_until", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("application"),
    )
    op.create_table(
        "results",
        sa.Column(
            "number",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("storage", sa.String(length=64), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("dataset_id", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("computes", sa.Text(), nullable=False),
        sa.Column("directories", sa.Text(), nullable=False),
        sa.Column("is_shared", sa.Integer(), nullable=False),
        sa.Column("audience", sa.String(length=16), nullable=False),
        sa.Column("user_name", sa.String(length=255), nullable=False),
        sa.Column("group_name", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("application", sa.String(length=32), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("cpu_seconds", sa.Float(), nullable=True),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("lifetime", sa.Float(), nullable=True),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("saved_seconds", sa.Float(), nullable=False),
        sa.Column("used", sa.Text(), nullable=False),
        sa.Column("why_gone", sa.Text(), nullable=True),
        sa.Column("shape", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    op.create_index("results_in_state", "results", ["state"], unique=False)
    op.create_index("results_of_shape", "results", ["shape"], unique=False)
    op.create_index("results_of_dataset", "results", ["dataset_id"], unique=False)
    op.create_table(
        "holders",
        sa.Column("result", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("application", sa.String(length=32), nullable=False),
        sa.Column("until", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["result"], ["results.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("result", "application"),
    )
    op.create_index("holders_that_are_programs", "holders", ["application"], unique=False)
    op.create_table(
        "inputs",
        sa.Column("result", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("dataset_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["result"], ["results.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("result", "dataset_id"),
    )
    op.create_table(
        "manifests",
        sa.Column("result", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("checksum", sa.String(length=64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("made_from", sa.LargeBinary(), nullable=False),
        sa.Column("statistics", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["result"], ["results.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("result"),
    )
    op.create_table(
        "uses",
        sa.Column(
            "number",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("result", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("application", sa.String(length=32), nullable=False),
        sa.Column("user_name", sa.String(length=255), nullable=False),
        sa.Column("used", sa.Float(), nullable=False),
        sa.Column("saved_seconds", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["result"], ["results.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("uses_of_result", "uses", ["result"], unique=False)


def downgrade() -> None:
    """Drops the tables."""
    for table in (
        "uses",
        "manifests",
        "inputs",
        "holders",
        "results",
        "programs",
        "claims",
        "catalog",
    ):
        op.drop_table(table)

"""Environments whose catalog is configured."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import URL

from holdfast import Environment, VertexOutcome
from holdfast.errors import ConfigurationError
from holdfast.testing import outcomes
from tests.catalog.conftest import empty_catalog


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    return empty_catalog(request, tmp_path)


def test_programs_share_results_through_any_database(
    spark: SparkSession, tmp_path: Path, url: URL
) -> None:
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "catalog.url": url.render_as_string(hide_password=False),
    }
    found = []
    for _ in range(2):
        with Environment(spark, config=config) as env:
            hot = env.from_dataframe(spark.range(40).selectExpr("id % 7 AS k")).groupBy("k").count()
            assert hot.cache(lifetime="1 h").count() == 7
            found.append(outcomes(env)[0])
    assert found == [VertexOutcome.PRODUCED, VertexOutcome.READ]
    assert not (tmp_path / "kept" / "catalog" / "catalog.db").exists()


@pytest.mark.parametrize(
    "given", ["mysql://host/db", "sqlite:///relative.db", "sqlite://", "nonsense", 7]
)
def test_what_is_no_catalog_is_refused(spark: SparkSession, given: object) -> None:
    with pytest.raises(ConfigurationError, match=r"catalog\.url.*expected sqlite:////path"):
        Environment(spark, config={"catalog.url": given})

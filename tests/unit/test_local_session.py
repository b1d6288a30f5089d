"""Where a master may be configured, so that a new session listens on loopback alone or doesn't."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.spark.local_session import is_local


@pytest.mark.parametrize(
    ("variables", "files", "expected"),
    [
        ({}, {}, True),
        ({"MASTER": "local[2]"}, {}, True),
        ({"MASTER": "spark://node-1:7077"}, {}, False),
        ({"PYSPARK_SUBMIT_ARGS": "--conf a=b pyspark-shell"}, {}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, {}, False),
        ({"PYSPARK_SUBMIT_ARGS": "--conf spark.master='k8s://x' pyspark-shell"}, {}, False),
        ({"PYSPARK_SUBMIT_ARGS": "--properties-file of-cluster pyspark-shell"}, {}, False),
        ({}, {"spark-defaults.conf": "spark.ui.enabled false\nspark.master\tyarn\n"}, False),
        ({}, {"spark-defaults.conf": "spark.master=local[3]\n"}, True),
        ({"MASTER": "local"}, {"spark-defaults.conf": "spark.master: yarn\n"}, False),
        ({}, {"spark-env.sh": "export MASTER=$(known_to_the_shell)\n"}, False),
    ],
)
@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "SPARK_HOME"])
def test_a_session_is_local_unless_a_cluster_may_be_configured(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    variable: str,
    variables: dict[str, str],
    files: dict[str, str],
    expected: bool,
) -> None:
    for name in ("MASTER", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    directory = tmp_path if variable == "SPARK_CONF_DIR" else tmp_path / "conf"
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    for name, value in {variable: str(tmp_path), **variables}.items():
        monkeypatch.setenv(name, value)
    assert is_local() is expected

"""Where a master may be configured, so that a new session listens on loopback alone or doesn't."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.spark.local_session import is_local

ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


@pytest.mark.parametrize(
    ("variables", "file", "text", "expected"),
    [
        ({}, "", "", True),
        ({"MASTER": "local[2]"}, "", "", True),
        ({"MASTER": "spark://node-1:7077"}, "", "", False),
        ({ARGUMENTS: "--conf a=b pyspark-shell"}, "", "", True),
        ({ARGUMENTS: "--master yarn pyspark-shell"}, "", "", False),
        ({ARGUMENTS: "--conf spark.master='k8s://x' pyspark-shell"}, "", "", False),
        ({ARGUMENTS: "--properties-file of-cluster pyspark-shell"}, "", "", False),
        ({}, "spark-defaults.conf", "spark.ui.enabled false\nspark.master\tyarn\n", False),
        ({}, "spark-defaults.conf", "spark.master=local[3]\n", True),
        ({"MASTER": "local"}, "spark-defaults.conf", "spark.master: yarn\n", False),
        ({}, "spark-env.sh", "export MASTER=$(known_to_the_shell)\n", False),
    ],
)
@pytest.mark.parametrize(("variable", "conf"), [("SPARK_CONF_DIR", "."), ("SPARK_HOME", "conf")])
def test_a_session_is_local_unless_a_cluster_may_be_configured(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    variable: str,
    conf: str,
    variables: dict[str, str],
    file: str,
    text: str,
    expected: bool,
) -> None:
    for name in ("MASTER", ARGUMENTS, "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / conf).mkdir(exist_ok=True)
    if file:
        (tmp_path / conf / file).write_text(text, encoding="utf-8")
    for name, value in {variable: str(tmp_path), **variables}.items():
        monkeypatch.setenv(name, value)
    assert is_local() is expected

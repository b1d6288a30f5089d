"""`python -m holdfast.cli.demo.driver_program`: the driver that is killed in the third act."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from holdfast import Environment
from holdfast.cli.demo.driver_home import DriverHome
from holdfast.cli.demo.driver_report import DriverReport
from holdfast.cli.demo.large_orders import COLUMNS, QUERY
from holdfast.cli.demo.parquet_folder import ParquetTable, tables_of
from holdfast.cli.demo.spark_session import local_session

_PART_OF_LINEITEM = 6


def main() -> None:
    """Runs the job once, to its end or to that of its process, and tells how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the TPC-H tables")
    parser.add_argument("home", type=Path, help="the folder for output, records and kept results")
    parser.add_argument("--plain", action="store_true", help="without Holdfast")
    arguments = parser.parse_args()
    home = DriverHome(arguments.home)
    tables = tables_of(arguments.data)
    spark = local_session(
        {
            # Tables that are broadcast are read again sooner than they are kept.
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.local.dir": str(home.temporary),
            "spark.driver.extraJavaOptions": f"'-Djava.io.tmpdir={home.temporary}'",
        }
    )
    spark.sparkContext.setLogLevel("ERROR")
    env = None if arguments.plain else Environment(spark, recovery(home, tables["lineitem"]))
    source = spark if env is None else env
    for name in COLUMNS:
        tables[name].read(source).createOrReplaceTempView(name)
    started = time.perf_counter()
    source.sql(QUERY).write.parquet(str(home.rows))
    seconds = time.perf_counter() - started
    report = DriverReport.of(seconds, None if env is None else env.last_job_result)
    home.report.write_text(report.model_dump_json(), encoding="utf-8")
    if env is not None:
        env.close()
    spark.stop()


def recovery(home: DriverHome, lineitem: ParquetTable) -> dict[str, object]:
    """The configuration of an environment whose jobs outlive their drivers.

    Args:
        home: where the driver has its files.
        lineitem: the largest table. Whoever reads this much of it has something worth keeping,
            however little that is.
    """
    return {
        "execution.batch.job-recovery.enabled": True,
        "execution.batch.job-recovery.min-vertex-input": f"{lineitem.bytes // _PART_OF_LINEITEM} b",
        "high-availability.storageDir": home.jobs.as_uri(),
        "intermediate-result-storage.directory": str(home.kept),
    }


if __name__ == "__main__":
    main()

"""The three jobs in PyFlink: runs in PyFlink's own virtual environment, by `flink run`."""

from __future__ import annotations

import json
import sys
import time

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource


def main() -> None:
    """Prints a line of JSON for each job: its seconds and its sums."""
    records, parallelism, jobs = map(int, sys.argv[1:4])
    env = StreamExecutionEnvironment.get_execution_environment()
    # Only in this mode does cache() keep anything.
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(parallelism)
    numbers = env.from_source(
        NumberSequenceSource(0, records - 1),
        WatermarkStrategy.no_watermarks(),
        "numbers",
        type_info=Types.LONG(),
    )
    kept = None
    for _ in range(jobs):
        started = time.perf_counter()
        if kept is None:
            pair = Types.TUPLE([Types.LONG(), Types.LONG()])
            kept = numbers.map(lambda i: (i % 100, i), output_type=pair).cache()
        sums = kept.key_by(lambda pair: pair[0], key_type=Types.LONG()).reduce(
            lambda a, b: (a[0], a[1] + b[1])
        )
        with sums.execute_and_collect() as collected:
            answer = [tuple(record) for record in collected]
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "answer": answer}), flush=True)


main()

"""What streams take and refuse, and that nothing runs before it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast import (
    CachedDataStream,
    DataStream,
    Environment,
    FileSink,
    FileSource,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    NumberSequenceSource,
    OutputTag,
    ProcessFunction,
    Source,
    StreamFormat,
    Types,
    WatermarkStrategy,
)
from holdfast.errors import (
    EnvironmentClosedError,
    InvalidStreamArgumentError,
    InvalidTransformationError,
    NoSinksError,
)


class Doubled(MapFunction):
    def map(self, value: Any) -> Any:
        return 2 * value


class Same(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value


class SameByKey(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value


@pytest.fixture
def numbers(env: Environment) -> DataStream:
    return env.from_collection([1, 2, 3])


REFUSED: list[tuple[Callable[[DataStream], Any], str]] = [
    (lambda s: s.map(3), r"map\(\) got 3: expected .*MapFunction"),
    (lambda s: s.map(None), r"map\(\) got None"),
    (lambda s: s.map(Doubled), r"map\(\) got .*the class itself: Doubled\(\)"),
    (lambda s: s.flat_map("split"), r"flat_map\(\) got 'split'.*FlatMapFunction"),
    (lambda s: s.filter(True), r"filter\(\) got True.*FilterFunction"),
    (lambda s: s.key_by(0), r"key_by\(\) got 0.*KeySelector"),
    (lambda s: s.process(lambda value: [value]), r"process\(\) got .* ProcessFunction"),
    (lambda s: s.process(SameByKey()), r"process\(\) got .* ProcessFunction"),
    (lambda s: s.process(Same), r"process\(\) got .*ProcessFunction"),
    (lambda s: s.key_by(str).process(Same()), r"process\(\) got .*KeyedProcessFunction"),
    (lambda s: s.key_by(str).reduce(1), r"reduce\(\) got 1.*ReduceFunction"),
    (lambda s: s.key_by(str).sum(-1), r"sum\(\) got -1: expected a field's position"),
    (lambda s: s.key_by(str).min(0.5), r"min\(\) got 0\.5"),
    (lambda s: s.key_by(str).max(None), r"max\(\) got None"),
    (lambda s: s.union([1]), r"union\(\) got \[1\]: expected a DataStream"),
    (lambda s: s.get_side_output("late"), r"get_side_output\(\) got 'late'.*OutputTag"),
    (lambda s: s.name(""), r"name\(\) got ''"),
    (lambda s: s.print(""), r"print\(\) got ''"),
    (lambda s: s.sink_to("/tmp/words"), r"sink_to\(\) got '/tmp/words': expected a sink"),
    (lambda s: s.sink_to(FileSink), r"sink_to\(\) got .*FileSink"),
    (lambda s: s.execute_and_collect("all", 0), r"execute_and_collect\(\) got 0"),
    (lambda s: s.execute_and_collect(limit=True), r"execute_and_collect\(\) got True"),
    (lambda s: s.execute_and_collect(7), r"execute_and_collect\(\) got 7"),
]


@pytest.mark.parametrize(("ask", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_a_stream_refuses_at_once(
    numbers: DataStream, ask: Callable[[DataStream], Any], message: str
) -> None:
    with pytest.raises(InvalidStreamArgumentError, match=message):
        ask(numbers)


@pytest.mark.parametrize("parallelism", [0, -1, 1.5, "2", True, None])
def test_a_parallelism_is_a_number_from_1(
    env: Environment, numbers: DataStream, parallelism: Any
) -> None:
    if parallelism is not None:
        with pytest.raises(InvalidTransformationError, match="expected an integer >= 1"):
            numbers.set_parallelism(parallelism)
        with pytest.raises(InvalidTransformationError, match="expected an integer >= 1"):
            numbers.print().set_parallelism(parallelism)
    with pytest.raises(InvalidStreamArgumentError, match="expected an integer >= 1"):
        env.set_parallelism(parallelism)


@pytest.mark.parametrize(
    "virtual",
    [
        lambda s: s.rebalance(),
        lambda s: s.union(s),
        lambda s: s.key_by(str),
        lambda s: s.process(Same()).get_side_output(OutputTag("none")),
        lambda s: s.cache(),
    ],
)
def test_what_has_no_subtasks_of_its_own_has_no_parallelism(
    numbers: DataStream, virtual: Callable[[DataStream], DataStream]
) -> None:
    with pytest.raises(InvalidTransformationError, match="parallelism"):
        virtual(numbers).set_parallelism(2)


def test_a_cached_stream_is_named_by_what_it_keeps(numbers: DataStream) -> None:
    cached = numbers.map(str).name("as text").cache()
    assert cached.get_name() == "Cache: as text"
    with pytest.raises(InvalidTransformationError, match=r"name\(\) before cache\(\)"):
        cached.name("other")


def test_a_side_output_is_taken_of_what_process_gives(numbers: DataStream) -> None:
    late = OutputTag("late")
    with pytest.raises(InvalidTransformationError, match="has no side outputs"):
        numbers.map(str).get_side_output(late)
    with pytest.raises(InvalidTransformationError, match="has no side outputs"):
        numbers.process(Same()).cache().get_side_output(late)


def test_what_the_environment_refuses_at_once(env: Environment, numbers: DataStream) -> None:
    with pytest.raises(InvalidStreamArgumentError, match=r"from_collection\(\) got 3"):
        env.from_collection(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidStreamArgumentError, match=r"from_source\(\) got \[1\]"):
        env.from_source([1])  # type: ignore[arg-type]
    with pytest.raises(InvalidStreamArgumentError, match="from_source.*no_watermarks"):
        env.from_source(NumberSequenceSource(1, 2), "never")  # type: ignore[arg-type]
    with pytest.raises(InvalidStreamArgumentError, match="from_source.*non-empty"):
        env.from_source(NumberSequenceSource(1, 2), source_name="")
    with pytest.raises(InvalidStreamArgumentError, match="read_text_file.*UTF-8"):
        env.read_text_file("words.txt", "latin-1")
    with pytest.raises(InvalidStreamArgumentError, match="from_data_stream.*DataStream"):
        env.from_data_stream([1], "n int")  # type: ignore[arg-type]
    with pytest.raises(InvalidStreamArgumentError, match="from_data_stream.*columns"):
        env.from_data_stream(numbers, ["n"])  # type: ignore[arg-type]
    with pytest.raises(InvalidStreamArgumentError, match=r"execute\(\) got ''"):
        env.execute("")
    with pytest.raises(ValueError, match="expected at least one path"):
        FileSource.for_record_stream_format(StreamFormat.text_line_format())


def test_streams_of_different_environments_do_not_meet(
    env: Environment, spark: SparkSession, numbers: DataStream, tmp_path: Path
) -> None:
    directory = {"intermediate-result-storage.directory": str(tmp_path / "other")}
    with Environment(spark, config=directory) as other:
        strange = other.from_collection([4])
        with pytest.raises(InvalidStreamArgumentError, match="another environment"):
            numbers.union(strange)
        with pytest.raises(InvalidStreamArgumentError, match="another environment"):
            env.from_data_stream(strange, "n int")


def test_without_sinks_there_is_nothing_to_run(env: Environment, numbers: DataStream) -> None:
    with pytest.raises(NoSinksError):
        env.execute()
    numbers.map(str)
    with pytest.raises(NoSinksError):
        env.execute("nothing")
    with pytest.raises(NoSinksError):
        env.get_execution_plan()


def test_a_closed_environment_runs_no_streams(env: Environment, numbers: DataStream) -> None:
    cached = numbers.cache()
    numbers.print()
    table = env.from_dataframe(env.spark.range(2))
    env.close()
    for ask in (
        lambda: env.from_collection([1]),
        lambda: env.from_source(NumberSequenceSource(1, 2)),
        lambda: env.read_text_file("words.txt"),
        lambda: env.from_data_stream(numbers, "n int"),
        lambda: table.to_data_stream(),
        lambda: numbers.cache(),
        lambda: numbers.print(),
        lambda: numbers.execute_and_collect(),
        lambda: env.execute(),
        lambda: env.get_execution_plan(),
    ):
        with pytest.raises(EnvironmentClosedError):
            ask()
    cached.invalidate()


def test_nothing_runs_before_it_is_asked_for(
    env: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    marker = str(tmp_path / "ran")

    class Telling(Source):
        def enumerate_splits(self, parallelism: int) -> list[Any]:
            Path(marker).touch()
            return [1]

        def read(self, split: Any) -> Iterator[Any]:
            Path(marker).touch()
            yield split

    stream = env.from_source(Telling()).map(str).key_by(len).reduce(max)
    stream.print()
    records = stream.cache().execute_and_collect()
    assert not Path(marker).exists()
    assert env.last_job_result is None
    assert list(records) == ["1"]
    assert Path(marker).exists()


def test_what_streams_are(env: Environment, numbers: DataStream) -> None:
    keyed = numbers.key_by(str)
    assert type(keyed) is KeyedStream
    assert type(keyed.key_by(len)) is KeyedStream
    assert type(keyed.sum(0)) is DataStream
    cached = numbers.cache()
    assert type(cached) is CachedDataStream
    assert cached.cache() is cached
    assert repr(numbers.map(str).name("as text")) == "DataStream('as text')"
    assert repr(numbers.print("n").name("out").set_parallelism(1)) == "DataStreamSink('out')"
    assert numbers.get_execution_environment() is env


def test_type_information_is_accepted_wherever_pyflink_takes_it(env: Environment) -> None:
    numbers = env.from_collection([1, 2], type_info=Types.INT())
    other = env.from_source(
        NumberSequenceSource(3, 4), WatermarkStrategy.no_watermarks(), "more", Types.LONG()
    )
    pairs = numbers.union(other).map(lambda n: (n % 2, n), Types.TUPLE([Types.INT(), Types.INT()]))
    flat = pairs.flat_map(lambda pair: [pair], output_type=Types.PICKLED_BYTE_ARRAY())
    summed = flat.process(Same(), Types.ROW([Types.INT()])).key_by(
        lambda pair: pair[0], key_type=Types.INT()
    )
    assert sorted(summed.sum(1).execute_and_collect()) == [(0, 6), (1, 4)]


def test_the_plan_is_printed_and_drawn_before_it_runs(
    env: Environment, numbers: DataStream
) -> None:
    cached = numbers.map(str).name("as text").cache()
    cached.key_by(len).reduce(max).print()
    plan = env.get_execution_plan()
    for stage in ("Transformations", "StreamGraph", "JobGraph"):
        assert stage in str(plan)
    assert "as text" in str(plan)
    assert "BLOCKING_PERSISTENT" in str(plan)
    assert plan.mermaid.startswith("flowchart") and "as text" in plan.mermaid
    assert plan._repr_mimebundle_() == {"text/vnd.mermaid": plan.mermaid, "text/plain": str(plan)}
    env.execute()
    cached.print()
    assert "BLOCKING_PERSISTENT" not in str(env.get_execution_plan())
    assert "as text" in str(env.get_execution_plan())
    env.execute()


def test_the_environment_s_parallelism_is_that_of_spark_unless_set(env: Environment) -> None:
    assert env.get_parallelism() == env.spark.sparkContext.defaultParallelism
    assert env.set_parallelism(3) is env
    assert env.get_parallelism() == 3

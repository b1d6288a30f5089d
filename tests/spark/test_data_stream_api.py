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
    KeyedStream,
    MapFunction,
    NumberSequenceSource,
    OutputTag,
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
from tests.spark.streams import SameByKey, Split


class Doubled(MapFunction):
    def map(self, value: Any) -> Any:
        return 2 * value


SOURCE = NumberSequenceSource(1, 2)


@pytest.fixture
def numbers(env: Environment) -> DataStream:
    return env.from_collection([1, 2, 3])


REFUSED: dict[str, Callable[[DataStream], Any]] = {
    r"map\(\) got 3: expected .*MapFunction": lambda s: s.map(3),
    r"map\(\) got None": lambda s: s.map(None),
    r"map\(\) got .*the class itself: Doubled\(\)": lambda s: s.map(Doubled),
    r"flat_map\(\) got 'split'.*FlatMapFunction": lambda s: s.flat_map("split"),
    r"filter\(\) got True.*FilterFunction": lambda s: s.filter(True),
    r"key_by\(\) got 0.*KeySelector": lambda s: s.key_by(0),
    r"process\(\) got .* ProcessFunction": lambda s: s.process(SameByKey()),
    r"process\(\) got <function": lambda s: s.process(lambda value: [value]),
    r"process\(\) got .*KeyedProcessFunction": lambda s: s.key_by(str).process(Split()),
    r"reduce\(\) got 1.*ReduceFunction": lambda s: s.key_by(str).reduce(1),
    r"sum\(\) got -1: expected a field's position": lambda s: s.key_by(str).sum(-1),
    r"min\(\) got 0\.5": lambda s: s.key_by(str).min(0.5),
    r"max\(\) got None": lambda s: s.key_by(str).max(None),
    r"union\(\) got \[1\]: expected a DataStream": lambda s: s.union([1]),
    r"get_side_output\(\) got 'late'.*OutputTag": lambda s: s.get_side_output("late"),
    r"name\(\) got ''": lambda s: s.name(""),
    r"print\(\) got ''": lambda s: s.print(""),
    r"sink_to\(\) got '/tmp/words': expected a sink": lambda s: s.sink_to("/tmp/words"),
    r"sink_to\(\) got .*FileSink": lambda s: s.sink_to(FileSink),
    r"execute_and_collect\(\) got 0": lambda s: s.execute_and_collect("all", 0),
    r"execute_and_collect\(\) got True": lambda s: s.execute_and_collect(limit=True),
    r"execute_and_collect\(\) got 7": lambda s: s.execute_and_collect(7),
}
REFUSED_BY_ENVIRONMENT: dict[str, Callable[[Any], Any]] = {
    r"from_collection\(\) got 3": lambda env: env.from_collection(3),
    r"from_source\(\) got \[1\]": lambda env: env.from_source([1]),
    "from_source.*no_watermarks": lambda env: env.from_source(SOURCE, "never"),
    "from_source.*non-empty": lambda env: env.from_source(SOURCE, source_name=""),
    "read_text_file.*UTF-8": lambda env: env.read_text_file("words.txt", "latin-1"),
    "from_data_stream.*DataStream": lambda env: env.from_data_stream([1], "n int"),
    "from_data_stream.*columns": lambda env: env.from_data_stream(env.from_collection([1]), ["n"]),
    r"execute\(\) got ''": lambda env: env.execute(""),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_a_stream_refuses_at_once(numbers: DataStream, message: str) -> None:
    with pytest.raises(InvalidStreamArgumentError, match=message):
        REFUSED[message](numbers)


@pytest.mark.parametrize("message", REFUSED_BY_ENVIRONMENT)
def test_what_the_environment_refuses_at_once(env: Environment, message: str) -> None:
    with pytest.raises(InvalidStreamArgumentError, match=message):
        REFUSED_BY_ENVIRONMENT[message](env)


@pytest.mark.parametrize("name", ["", None, 1])
def test_a_tag_has_a_name(name: Any) -> None:
    with pytest.raises(ValueError, match=r"tag_id.*expected a non-empty string"):
        OutputTag(name)


def test_a_source_of_files_has_paths() -> None:
    with pytest.raises(ValueError, match="expected at least one path"):
        FileSource.for_record_stream_format(StreamFormat.text_line_format())


@pytest.mark.parametrize("parallelism", [0, -1, 1.5, "2", True])
def test_a_parallelism_is_a_number_from_1(
    env: Environment, numbers: DataStream, parallelism: Any
) -> None:
    for stream in (numbers, numbers.print()):
        with pytest.raises(InvalidTransformationError, match="expected an integer >= 1"):
            stream.set_parallelism(parallelism)
    with pytest.raises(InvalidStreamArgumentError, match="expected an integer >= 1"):
        env.set_parallelism(parallelism)


VIRTUAL: dict[str, Callable[[DataStream], DataStream]] = {
    "rebalance": lambda s: s.rebalance(),
    "union": lambda s: s.union(s),
    "key_by": lambda s: s.key_by(str),
    "side output": lambda s: s.process(Split()).get_side_output(OutputTag("none")),
    "cache": lambda s: s.cache(),
}


@pytest.mark.parametrize("what", VIRTUAL)
def test_what_has_no_subtasks_of_its_own_has_no_parallelism(numbers: DataStream, what: str) -> None:
    with pytest.raises(InvalidTransformationError, match="parallelism"):
        VIRTUAL[what](numbers).set_parallelism(2)


def test_a_cached_stream_is_named_by_what_it_keeps(numbers: DataStream) -> None:
    cached = numbers.map(str).name("as text").cache()
    assert cached.get_name() == "Cache: as text"
    with pytest.raises(InvalidTransformationError, match=r"name\(\) before cache\(\)"):
        cached.name("other")


def test_a_side_output_is_taken_of_what_process_gives(numbers: DataStream) -> None:
    for stream in (numbers.map(str), numbers.process(Split()).cache()):
        with pytest.raises(InvalidTransformationError, match="has no side outputs"):
            stream.get_side_output(OutputTag("late"))


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
    numbers.map(str)
    for ask in (env.execute, env.get_execution_plan):
        with pytest.raises(NoSinksError):
            ask()


def test_a_closed_environment_runs_no_streams(env: Environment, numbers: DataStream) -> None:
    cached = numbers.cache()
    numbers.print()
    table = env.from_dataframe(env.spark.range(2))
    env.close()
    for ask in (
        lambda: env.from_collection([1]),
        lambda: env.from_source(SOURCE),
        lambda: env.read_text_file("words.txt"),
        lambda: env.from_data_stream(numbers, "n int"),
        table.to_data_stream,
        numbers.cache,
        numbers.print,
        numbers.execute_and_collect,
        env.execute,
        env.get_execution_plan,
    ):
        with pytest.raises(EnvironmentClosedError):
            ask()
    cached.invalidate()


def test_nothing_runs_before_it_is_asked_for(env: Environment, tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Marking(Source):
        def enumerate_splits(self, parallelism: int) -> list[Any]:
            marker.touch()
            return [1]

        def read(self, split: Any) -> Iterator[Any]:
            marker.touch()
            yield split

    stream = env.from_source(Marking()).map(str).key_by(len).reduce(max)
    stream.print()
    records = stream.cache().execute_and_collect()
    assert not marker.exists() and env.last_job_result is None
    assert list(records) == ["1"] and marker.exists()


def test_what_streams_are(env: Environment, numbers: DataStream) -> None:
    keyed, cached = numbers.key_by(str), numbers.cache()
    assert type(keyed) is type(keyed.key_by(len)) is KeyedStream
    assert type(keyed.sum(0)) is DataStream
    assert type(cached) is CachedDataStream and cached.cache() is cached
    assert repr(numbers.map(str).name("as text")) == "DataStream('as text')"
    assert repr(numbers.print("n").name("out").set_parallelism(1)) == "DataStreamSink('out')"
    assert numbers.get_execution_environment() is env
    assert env.get_parallelism() == env.spark.sparkContext.defaultParallelism
    assert env.set_parallelism(3) is env and env.get_parallelism() == 3


def test_type_information_is_accepted_wherever_pyflink_takes_it(env: Environment) -> None:
    numbers = env.from_collection([1, 2], type_info=Types.INT())
    other = env.from_source(
        NumberSequenceSource(3, 4), WatermarkStrategy.no_watermarks(), "more", Types.LONG()
    )
    pairs = numbers.union(other).map(lambda n: (n % 2, n), Types.TUPLE([Types.INT(), Types.INT()]))
    flat = pairs.flat_map(lambda pair: [pair], output_type=Types.PICKLED_BYTE_ARRAY())
    keyed = flat.key_by(lambda pair: pair[0], key_type=Types.INT())
    same = keyed.process(SameByKey(), Types.ROW([Types.INT()])).map(lambda pair: pair[1])
    assert sorted(same.execute_and_collect()) == [(0, 2), (0, 4), (1, 1), (1, 3)]


def test_the_plan_is_printed_and_drawn_before_it_runs(
    env: Environment, numbers: DataStream
) -> None:
    cached = numbers.map(str).name("as text").cache()
    cached.key_by(len).reduce(max).print()
    plan = env.get_execution_plan()
    for part in ("Transformations", "StreamGraph", "JobGraph", "as text", "BLOCKING_PERSISTENT"):
        assert part in str(plan)
    assert plan.mermaid.startswith("flowchart") and "as text" in plan.mermaid
    assert plan._repr_mimebundle_() == {"text/vnd.mermaid": plan.mermaid, "text/plain": str(plan)}
    env.execute()
    cached.print()
    assert "BLOCKING_PERSISTENT" not in str(env.get_execution_plan())
    assert "as text" in str(env.get_execution_plan())

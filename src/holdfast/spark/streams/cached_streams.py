"""The cached streams of an environment: what each is computed from, and what is kept of it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import RLock
from weakref import WeakKeyDictionary, WeakSet

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from holdfast.errors import HoldfastError
from holdfast.functions.output_tag import OutputTag
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.stream_graph_generator import StreamGraphGenerator
from holdfast.graph.stream.stream_job_graph import StreamJobGraph
from holdfast.graph.stream.stream_job_graph_generator import StreamJobGraphGenerator
from holdfast.graph.stream.topological_order import topological_order
from holdfast.graph.stream.transformations import (
    CacheTransformation,
    SideOutputTransformation,
    Transformation,
)
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.function_digest import Undigestible, digest_value
from holdfast.plan.hashing import hash_parts
from holdfast.plan.session_inputs import SessionInputs
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.runtime.job_master import describe_partitions
from holdfast.runtime.wanted import CachedComputation, longer
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.plans.shapes import shapes
from holdfast.spark.seal_label import SEAL
from holdfast.spark.session_settings import session_inputs
from holdfast.spark.streams.compiler import Flow, KeptRead, SealedFrame, StreamCompiler
from holdfast.spark.streams.sealed_formats import SharedOutput, TaggedSealedOutput
from holdfast.spark.streams.stream_sealing import StreamSealing
from holdfast.spark.streams.tee_plan import KeptStream
from holdfast.storage.sealed_batches import RECORDS
from holdfast.streaming.chain import Pass
from holdfast.streaming.outputs import BatchOutput, OutputFormat, SealedOutput
from holdfast.streaming.sealing import Seal

__all__ = ["CachedStreams", "SharedStream"]

_LABEL_DIGITS = 32

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class SharedStream:
    """A stream that is computed once in a job, although several read it.

    Attributes:
        sealed: its batches.
        query: what computes them.
        name: what it is, for people.
    """

    sealed: SealedFrame
    query: Query
    name: str


@dataclass(frozen=True, eq=False)
class _CachedStream:
    """A cached stream as the last job that needed it has compiled it.

    Attributes:
        sealed: its batches.
        run: the pass that seals them.
        query: what computes them.
        parallelism: in how many subtasks.
        name: what it is, for people.
        shared: what is to be computed once while it is produced.
    """

    sealed: SealedFrame
    run: Pass
    query: Query
    parallelism: int
    name: str
    shared: tuple[SharedStream, ...]


class CachedStreams:
    """What `cache()` was called on. Safe for use by several threads.

    Args:
        spark: the session.
        bridge: reads its plans.
        manager: what is cached and what is kept.
        sealing: what batches are sealed with.
        blocking: what is dealt anew to subtasks is kept for the length of a job as well.
    """

    def __init__(
        self,
        spark: SparkSession,
        bridge: CatalystBridge,
        manager: CacheServiceManager[Query],
        *,
        sealing: StreamSealing,
        blocking: bool = False,
    ) -> None:
        self._spark = spark
        self._bridge = bridge
        self._manager = manager
        self._sealing = sealing
        self._blocking = blocking
        self._lock = RLock()
        self._compiled: WeakKeyDictionary[CacheTransformation, _CachedStream] = WeakKeyDictionary()
        self._forgotten: WeakSet[CacheTransformation] = WeakSet()

    def prolong(self, cache: CacheTransformation, lifetime: float | None) -> None:
        """A stream is to stay for so long after its last use, or for longer.

        Args:
            cache: the cached stream.
            lifetime: in seconds; None: as long as the program runs.
        """
        cache = _first(cache)
        with self._lock:
            cache.lifetime = longer(cache.lifetime, lifetime)
            entry = self._compiled.get(cache)
            if entry is not None and cache not in self._forgotten:
                self._want(entry, cache)

    def compile(self, cache: CacheTransformation, default_parallelism: int) -> SealedFrame:
        """The batches of a cached stream; they are going to be kept by whichever job needs them.

        It is compiled, and its sources are looked at, once until it is invalidated.

        Args:
            cache: the cached stream.
            default_parallelism: of what has none of its own.
        """
        return self._entry(_first(cache), default_parallelism).sealed

    def compiler(
        self, graph: StreamJobGraph, default_parallelism: int
    ) -> tuple[StreamCompiler, list[SharedStream]]:
        """What compiles a job graph, with the streams that are to be shared in its job.

        Args:
            graph: the job.
            default_parallelism: of what has none of its own.

        Returns:
            the compiler, and a list that fills as it compiles.
        """
        shared: list[SharedStream] = []

        def share(flow: Flow, tags: tuple[OutputTag, ...]) -> SealedFrame:
            shared.append(self._share(flow, tags))
            return shared[-1].sealed

        compiler = StreamCompiler(
            self._spark,
            graph,
            lambda cache: self.compile(cache, default_parallelism),
            share,
            blocking=self._blocking,
        )
        return compiler, shared

    def invalidate(self, cache: CacheTransformation, default_parallelism: int) -> None:
        """Drops what is kept of a stream; the next job looks at its sources anew.

        Args:
            cache: the cached stream.
            default_parallelism: of what has none of its own.
        """
        cache = _first(cache)
        with self._lock:
            entry = self._compiled.pop(cache, None)
        if entry is None and self._sealing.why_not_common is None:
            # Another program may have kept what this one has not needed yet.
            with suppress(PySparkException, Py4JError, HoldfastError):
                entry = self._compile(cache, default_parallelism)
        self._drop(cache, entry, everywhere=True)

    def forget(self, cache: CacheTransformation) -> None:
        """Drops what is kept of a stream, which is no longer cached."""
        cache = _first(cache)
        self._forgotten.add(cache)
        with self._lock:
            entry = self._compiled.pop(cache, None)
        self._drop(cache, entry, everywhere=False)

    def _drop(
        self, cache: CacheTransformation, entry: _CachedStream | None, *, everywhere: bool
    ) -> None:
        if entry is not None:
            digest = entry.query.root.digest
            self._manager.invalidate(digest, closing=cache, everywhere=everywhere)
        cache.descriptor = None

    def descriptor(self, cache: CacheTransformation) -> IntermediateDataSetDescriptor | None:
        """How to read a stream, if it is kept at this moment."""
        entry = self._compiled.get(_first(cache))
        return None if entry is None else self._described(entry, self._dataset_id(entry.query))

    def _described(
        self, entry: _CachedStream, dataset_id: IntermediateDataSetID
    ) -> IntermediateDataSetDescriptor | None:
        kept = self._manager.results.find([dataset_id]).get(dataset_id)
        if kept is None:
            return None
        return IntermediateDataSetDescriptor(
            dataset_id, entry.parallelism, describe_partitions(kept.kept)
        )

    def to_be_kept(self, inputs: SessionInputs) -> Callable[[KeptRead], KeptStream | None]:
        """What tells the stream that a pass reads, if the next job is going to keep it.

        Args:
            inputs: the settings that the job runs under.
        """

        def stream_of(read: KeptRead) -> KeptStream | None:
            with self._lock:
                entries = list(self._compiled.values())
            for entry in entries:
                if entry.sealed.frame is read.frame:
                    kept = self._manager.results.find([_id_of(entry.query, inputs)])
                    return None if kept else KeptStream(entry.query, entry.run)
            return None

        return stream_of

    def is_cached(self, digest: str) -> bool:
        """Whether what has a digest is kept, or going to be kept by the next job that needs it.

        Args:
            digest: of a canonical plan.
        """
        return self._manager.wanted.find(digest) is not None

    def refresh(self, transformations: Iterable[Transformation]) -> None:
        """Tells each cache among the transformations, and before them, what is kept of it.

        Args:
            transformations: where to begin.
        """
        caches = caches_before(transformations)
        if not caches:
            return
        inputs = session_inputs(self._spark)
        for cache in caches:
            entry = self._compiled.get(_first(cache))
            if entry is None:
                cache.dataset_id = cache.descriptor = None
            else:
                cache.dataset_id = _id_of(entry.query, inputs)
                cache.descriptor = self._described(entry, cache.dataset_id)

    def _dataset_id(self, query: Query) -> IntermediateDataSetID:
        return _id_of(query, session_inputs(self._spark))

    def _share(self, flow: Flow, tags: tuple[OutputTag, ...]) -> SharedStream:
        """A flow as a stream that several read.

        Args:
            flow: what computes it.
            tags: the side outputs that are read.
        """
        seal = self._seal(flow, BatchOutput(tags))
        columns = _columns(seal.label, StructField("channel", IntegerType()))
        frame = flow.to(SharedOutput(seal, tags), columns)
        return SharedStream(
            SealedFrame(frame, seal), self._bridge.query(frame), f"shared in a job: {_name(flow)}"
        )

    @contextmanager
    def sharing(
        self, shared: Iterable[SharedStream], transformations: Iterable[Transformation]
    ) -> Iterator[frozenset[IntermediateDataSetID]]:
        """For as long as it lasts, shared streams are computed once; then they are released.

        Args:
            shared: those of the job itself.
            transformations: what the job is for; its caches may share streams as well.

        Yields:
            what they are kept as.
        """
        everything = [*shared]
        for cache in caches_before(transformations):
            entry = self._compiled.get(_first(cache))
            everything += () if entry is None else entry.shared
        for each in everything:
            computation = CachedComputation(each.query.root.digest, each.query, each.name)
            self._manager.wanted.register(computation, each)
        try:
            yield frozenset(self._dataset_id(each.query) for each in everything)
        finally:
            for each in everything:
                self._manager.invalidate(each.query.root.digest, closing=each)

    def _entry(self, cache: CacheTransformation, default_parallelism: int) -> _CachedStream:
        entry = self._compiled.get(cache)
        if entry is not None:
            return entry
        # Not under the lock, as the JVM is called: of several threads the first one counts.
        compiled = self._compile(cache, default_parallelism)
        with self._lock:
            entry = self._compiled.setdefault(cache, compiled)
            if entry is compiled and cache not in self._forgotten:
                self._want(entry, cache)
            return entry

    def _want(self, entry: _CachedStream, cache: CacheTransformation) -> None:
        why_not = self._sealing.why_not_common
        if cache.lifetime is not None and why_not is not None:
            logger.warning("%s will go with this program: %s", entry.name, why_not)
        computation = CachedComputation(
            entry.query.root.digest,
            entry.query,
            entry.name,
            cache.lifetime,
            tells_layout=why_not is None,
        )
        self._manager.wanted.register(computation, cache)

    def _compile(self, cache: CacheTransformation, default_parallelism: int) -> _CachedStream:
        stream_graph = StreamGraphGenerator(default_parallelism, [cache.input]).generate()
        graph = StreamJobGraphGenerator(stream_graph).generate()
        kept = stream_graph.nodes[-1]
        (vertex,) = (each for each in graph.vertices if each.tail.id == kept.id)
        compiler, shared = self.compiler(graph, default_parallelism)
        flow = compiler.flow(vertex)
        tag = cache.input.tag if isinstance(cache.input, SideOutputTransformation) else None
        unsealed = BatchOutput() if tag is None else BatchOutput((tag,), main=False)
        seal = self._seal(flow, unsealed)
        output: OutputFormat = SealedOutput(seal)
        if tag is not None:
            output = TaggedSealedOutput(seal, tag)
        frame = flow.to(output, _columns(seal.label))
        return _CachedStream(
            SealedFrame(frame, seal),
            flow.run(output),
            self._bridge.query(frame),
            vertex.parallelism,
            f"stream: {vertex.name}" + ("" if tag is None else f", side output {tag.tag_id!r}"),
            tuple(shared),
        )

    def _seal(self, flow: Flow, output: OutputFormat) -> Seal:
        """The seal of a stream's batches: what is written on it is what they are the result of."""
        try:
            content = digest_value(flow.run(output))
        except Undigestible:
            # Then the stream is like no other, and so is its label.
            content = uuid.uuid4().hex
        below = self._bridge.query(flow.frame)
        # The label is in plans: those that differ in the versions of their files alone are alike.
        shape = shapes(self._bridge, below)[below.root.handle]
        label = hash_parts(shape, content, *self._sealing.assumed)[:_LABEL_DIGITS]
        return Seal(label, self._sealing.key, below.root.digest)


def caches_before(transformations: Iterable[Transformation]) -> list[CacheTransformation]:
    """All caches among the transformations and before them, each after those before it.

    Args:
        transformations: where to begin.
    """
    order = topological_order(transformations, lambda each: each.inputs)
    return [each for each in order if isinstance(each, CacheTransformation)]


def _id_of(query: Query, inputs: SessionInputs) -> IntermediateDataSetID:
    """What the result of a query is kept as."""
    return IntermediateDataSetID.from_digest(inputs.dataset_digest(query.root))


def _first(cache: CacheTransformation) -> CacheTransformation:
    """The one that keeps it: what is cached already is not kept a second time."""
    while isinstance(cache.input, CacheTransformation):
        cache = cache.input
    return cache


def _columns(label: str, *before: StructField) -> StructType:
    return StructType(
        [
            *before,
            StructField(RECORDS, IntegerType()),
            StructField("batch", BinaryType()),
            StructField("mac", BinaryType(), metadata={SEAL: label}),
        ]
    )


def _name(flow: Flow) -> str:
    names = [operator.name for operator in flow.operators]
    return " -> ".join(names or [flow.name])

"""What a person has asked of streams, as it was asked: each node knows its inputs.

Source: FLIP-205, "DataStream -> Stream Graph".
"""

from __future__ import annotations

import itertools
from typing import ClassVar, Final

from holdfast.errors import InvalidTransformationError
from holdfast.functions.output_tag import OutputTag
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.operators import Identity, KeyedOperator, Operator
from holdfast.graph.stream.partitioner import HashByKey, Partitioner
from holdfast.ids import IntermediateDataSetID

_next_id = itertools.count(1).__next__


class Transformation:
    """A stream, by what makes it. Two are the same only where they are one object.

    Args:
        name: what it does, for people.
        inputs: what it is made from.

    Attributes:
        id: a number that no other transformation of this process has.
        inputs: what it is made from; never changes.
        name: what it does, for people; may be changed.

    Raises:
        InvalidTransformationError: when a sink is among the inputs, which nothing comes out of.
    """

    _has_subtasks: ClassVar[bool] = False

    def __init__(self, name: str, inputs: tuple[Transformation, ...]) -> None:
        self.id: Final = _next_id()
        self.inputs: Final = inputs
        self.name = name
        self._parallelism: int | None = None
        for each in inputs:
            if isinstance(each, SinkTransformation):
                raise InvalidTransformationError(
                    name, f"its input {each.name!r} is a sink: expected the input of that sink"
                )

    @property
    def parallelism(self) -> int | None:
        """How many subtasks it runs in; None: as many as its environment's default.

        Raises:
            InvalidTransformationError: when set to anything but a number from 1, or on a
                transformation that has no subtasks of its own.
        """
        return self._parallelism

    @parallelism.setter
    def parallelism(self, parallelism: int | None) -> None:
        if not self._has_subtasks:
            raise InvalidTransformationError(
                self.name,
                "it runs in its input's subtasks and has no parallelism of its own: set the "
                "parallelism on a source, a function or a sink",
            )
        if parallelism is not None and (type(parallelism) is not int or parallelism < 1):
            raise InvalidTransformationError(
                self.name, f"its parallelism is {parallelism!r}: expected an integer >= 1"
            )
        self._parallelism = parallelism

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id}, name={self.name!r})"


class PhysicalTransformation(Transformation):
    """A transformation that runs: it becomes a node, with subtasks.

    Args:
        name: what it does, for people.
        inputs: what it is made from.
        parallelism: how many subtasks it runs in; None: as many as its environment's default.

    Raises:
        InvalidTransformationError: when the parallelism is not a number from 1.
    """

    _has_subtasks: ClassVar[bool] = True

    def __init__(
        self, name: str, inputs: tuple[Transformation, ...], parallelism: int | None = None
    ) -> None:
        super().__init__(name, inputs)
        self.parallelism = parallelism


class SourceTransformation(PhysicalTransformation):
    """Where records come from.

    Args:
        source: what reads them; opaque here.
        name: what it reads, for people.
        parallelism: how many subtasks it runs in; None: as many as its environment's default.

    Raises:
        InvalidTransformationError: when the parallelism is not a number from 1.

    >>> numbers = SourceTransformation(range(3), "Source: numbers")
    >>> numbers.inputs, numbers.parallelism
    ((), None)
    """

    def __init__(
        self, source: object, name: str = "Source", parallelism: int | None = None
    ) -> None:
        super().__init__(name, (), parallelism)
        self.source: Final = source


class OneInputTransformation(PhysicalTransformation):
    """An operator over one stream.

    Args:
        input: what it takes its records from. For a keyed operator a PartitionTransformation by the
            operator's own key.
        operator: what it does.
        name: what it does, for people; None: the operator's default name.
        parallelism: how many subtasks it runs in; None: as many as its environment's default.

    Raises:
        InvalidTransformationError: when the parallelism is not a number from 1, or the input of a
            keyed operator is not partitioned by its key.
    """

    def __init__(
        self,
        input: Transformation,
        operator: Operator,
        name: str | None = None,
        parallelism: int | None = None,
    ) -> None:
        super().__init__(operator.default_name if name is None else name, (input,), parallelism)
        self.operator: Final = operator
        if isinstance(operator, KeyedOperator) and not _is_keyed_by(input, operator.key_selector):
            raise InvalidTransformationError(
                self.name,
                f"its input {input.name!r} is not partitioned by key, so records of one key would "
                "not meet: expected a stream from key_by()",
            )

    @property
    def input(self) -> Transformation:
        """What it takes its records from."""
        return self.inputs[0]


class SinkTransformation(PhysicalTransformation):
    """Where records go.

    Args:
        input: what it takes its records from.
        sink: what writes them; opaque here.
        name: what it writes, for people.
        parallelism: how many subtasks it runs in; None: as many as its environment's default.

    Raises:
        InvalidTransformationError: when the parallelism is not a number from 1.
    """

    def __init__(
        self,
        input: Transformation,
        sink: object,
        name: str = "Sink",
        parallelism: int | None = None,
    ) -> None:
        super().__init__(name, (input,), parallelism)
        self.sink: Final = sink

    @property
    def input(self) -> Transformation:
        """What it takes its records from."""
        return self.inputs[0]


class UnionTransformation(Transformation):
    """The records of several streams. Virtual: each consumer takes them from all the inputs.

    Args:
        inputs: the streams, at least one. One that is there twice has its records there twice.
        name: what it is, for people.

    Raises:
        InvalidTransformationError: when there is no input.
    """

    def __init__(self, inputs: tuple[Transformation, ...], name: str = "Union") -> None:
        super().__init__(name, tuple(inputs))
        if not self.inputs:
            raise InvalidTransformationError(name, "it has no inputs: expected at least one stream")


class PartitionTransformation(Transformation):
    """The records of a stream, given to subtasks in a way of its own. Virtual: it marks edges.

    Args:
        input: the stream. Where that is partitioned as well, what lies nearer to the consumer
            counts.
        partitioner: which subtask a record goes to.
        name: what it is, for people.
    """

    def __init__(
        self, input: Transformation, partitioner: Partitioner, name: str = "Partition"
    ) -> None:
        super().__init__(name, (input,))
        self.partitioner: Final = partitioner

    @property
    def input(self) -> Transformation:
        """The stream."""
        return self.inputs[0]


class SideOutputTransformation(Transformation):
    """What an operator yields for a tag. Virtual: it marks edges.

    Args:
        input: the operator.
        tag: which of its outputs.
        name: what it is, for people; None: told by the input's name and the tag.

    Raises:
        InvalidTransformationError: when the input can't have side outputs.
    """

    def __init__(self, input: Transformation, tag: OutputTag, name: str | None = None) -> None:
        super().__init__(f"{input.name}, {tag.tag_id}" if name is None else name, (input,))
        self.tag: Final = tag
        if not (isinstance(input, OneInputTransformation) and input.operator.has_side_outputs):
            raise InvalidTransformationError(
                self.name,
                f"its input {input.name!r} has no side outputs: expected the stream returned by "
                "process(). Call get_side_output() on that stream directly",
            )

    @property
    def input(self) -> OneInputTransformation:
        """The operator."""
        (operator,) = self.inputs
        assert isinstance(operator, OneInputTransformation)
        return operator


class CacheTransformation(Transformation):
    """The intermediate result of its input should be kept, or has been.

    It has one and only one physical input: the one whose output, or side output, is kept. A stream
    that is no output of anything (a union, a partitioned stream) gets an `Identity` of its own.
    What is cached already is not kept a second time.

    Source: FLIP-205, "DataStream -> Stream Graph".

    Args:
        input: the stream to keep.
        name: what is kept, for people; None: told by the input's name.

    Attributes:
        lifetime: how long it stays after its last use, in seconds; None: as long as the program.
        dataset_id: the kept result; None as long as it isn't known. The job's engine sets it.
        descriptor: all that it takes to read the kept result. Populated after the cache is created;
            None before, and once it is invalidated.

    >>> numbers = SourceTransformation(range(3), "Source: numbers")
    >>> cached = CacheTransformation(numbers)
    >>> cached.name, cached.physical_input is numbers, cached.descriptor
    ('Cache: numbers', True, None)
    """

    def __init__(self, input: Transformation, name: str | None = None) -> None:
        if isinstance(input, UnionTransformation | PartitionTransformation):
            input = OneInputTransformation(input, Identity(), input.name)
        super().__init__(f"Cache: {_bare(input.name)}" if name is None else name, (input,))
        self.lifetime: float | None = None
        self.dataset_id: IntermediateDataSetID | None = None
        self.descriptor: IntermediateDataSetDescriptor | None = None

    @property
    def input(self) -> Transformation:
        """What is kept: a physical transformation, a side output of one, or another cache."""
        return self.inputs[0]

    @property
    def physical_input(self) -> PhysicalTransformation:
        """The one physical transformation whose output, or side output, is kept."""
        found: Transformation = self.input
        while not isinstance(found, PhysicalTransformation):
            found = found.inputs[0]
        return found


def _is_keyed_by(input: Transformation, key_selector: object) -> bool:
    return (
        isinstance(input, PartitionTransformation)
        and isinstance(input.partitioner, HashByKey)
        and input.partitioner.key_selector is key_selector
    )


def _bare(name: str) -> str:
    return name.removeprefix("Source: ").removeprefix("Cache: ")

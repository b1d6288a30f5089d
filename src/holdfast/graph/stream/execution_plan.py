"""The plan of a stream job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from holdfast.graph.diagram.diagram import Diagram
from holdfast.graph.diagram.diagram_svg import diagram_svg
from holdfast.graph.diagram.diagram_text import diagram_text
from holdfast.graph.stream.stream_graph import StreamGraph
from holdfast.graph.stream.stream_graph_generator import StreamGraphGenerator
from holdfast.graph.stream.stream_job_graph import StreamJobGraph
from holdfast.graph.stream.stream_job_graph_generator import StreamJobGraphGenerator
from holdfast.graph.stream.transformations import Transformation
from holdfast.graph.stream.transformations_diagram import transformations_diagram

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True, repr=False)
class ExecutionPlan:
    """All stages of a job's translation, as they were when the plan was made.

    `print` shows each of them as text. In a notebook, the plan is a drawing.

    Source: FLIP-205, "Translation Process".

    Attributes:
        transformations: the transformations, to be printed or drawn.
        stream_graph: the operators, and the edges between them.
        job_graph: the operators chained into vertices.

    >>> from holdfast.graph.stream.transformations import SinkTransformation, SourceTransformation
    >>> source = SourceTransformation(range(3), "Source: numbers")
    >>> print(ExecutionPlan.of(2, [SinkTransformation(source, print, "Sink: Print")]))
    Transformations
    [1] Source: numbers (SourceTransformation)
    [2] Sink: Print (SinkTransformation)
        <- [1]
    <BLANKLINE>
    StreamGraph
    [1] Source: numbers (parallelism 2, HEAD)
    [2] Sink: Print (parallelism 2, ALWAYS)
        <- [1] FORWARD
    <BLANKLINE>
    JobGraph
    [1] Source: numbers -> Sink: Print (parallelism 2)
    """

    transformations: Diagram
    stream_graph: StreamGraph
    job_graph: StreamJobGraph

    @classmethod
    def of(cls, default_parallelism: int, transformations: Iterable[Transformation]) -> Self:
        """Translates a job.

        Args:
            default_parallelism: of the transformations whose parallelism nobody has set; from 1.
            transformations: what the job is for, as a rule its sinks.

        Raises:
            InvalidTransformationError: when no job can be made of the transformations.
            NoSinksError: when there is no transformation.
        """
        roots = tuple(transformations)
        stream_graph = StreamGraphGenerator(default_parallelism, roots).generate()
        job_graph = StreamJobGraphGenerator(stream_graph).generate()
        return cls(transformations_diagram(roots), stream_graph, job_graph)

    @property
    def diagrams(self) -> tuple[Diagram, Diagram, Diagram]:
        """The transformations, the stream graph and the job graph, to be printed or drawn."""
        return self.transformations, self.stream_graph.diagram, self.job_graph.diagram

    def __str__(self) -> str:
        return "\n\n".join(map(diagram_text, self.diagrams))

    def __repr__(self) -> str:
        # An interactive session shows this: let it be readable there.
        return str(self)

    def _repr_svg_(self) -> str:
        """The job graph as a drawing, for a notebook."""
        return diagram_svg(self.job_graph.diagram)

    def _repr_html_(self) -> str:
        """The job graph as a drawing, the stages before it folded, for a notebook."""
        *before, job_graph = self.diagrams
        folded = "".join(
            f"<details><summary>{escape(each.title)}</summary>{diagram_svg(each)}</details>"
            for each in before
        )
        return f"<div>{diagram_svg(job_graph)}{folded}</div>"

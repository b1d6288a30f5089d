"""The plan of a stream job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.graph.diagram.diagram import Diagram
from holdfast.graph.diagram.diagram_mermaid import diagram_mermaid
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

    `print` shows each of them as text. In a notebook that draws Mermaid (JupyterLab from 4.1 on),
    the job graph is a drawing.

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

    @property
    def mermaid(self) -> str:
        """The job graph as Mermaid's text, which notebooks and Markdown draw."""
        return diagram_mermaid(self.job_graph.diagram)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The job graph as a drawing, for a notebook."""
        return {"text/vnd.mermaid": self.mermaid, "text/plain": str(self)}

"""What a person asked for, before it is a job."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode


@dataclass(frozen=True, slots=True)
class TableCacheTransformation:
    """The intermediate result of its input should be kept, or has been.

    Source: FLIP-205, "DataStream -> Stream Graph"; for a table FLIP-36, step 1.

    Attributes:
        dataset_id: the id of the kept result, derived from the input's digest.
        input: the canonical plan of what is kept.
        name: what it computes, for people.
    """

    dataset_id: IntermediateDataSetID
    input: CanonicalNode
    name: str

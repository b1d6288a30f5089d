"""OutputTag: the name of a side output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.functions.type_information import TypeInformation

__all__ = ["OutputTag"]


@dataclass(frozen=True, slots=True)
class OutputTag:
    """Names a side output. A `ProcessFunction` yields `tag, value` to send a value there.

    Tags of the same name are equal and name the same side output.

    Args:
        tag_id: the name; a non-empty string.
        type_info: the type of its records; only descriptive.

    Raises:
        ValueError: when the name is empty or not a string.

    Source: PyFlink, `pyflink.datastream.OutputTag`.

    >>> OutputTag("late") == OutputTag("late")
    True
    """

    tag_id: str
    type_info: TypeInformation | Sequence[TypeInformation] | None = field(
        default=None, compare=False
    )

    def __post_init__(self) -> None:
        if not isinstance(self.tag_id, str) or not self.tag_id:
            raise ValueError(
                f"tag_id of an OutputTag is {self.tag_id!r}: expected a non-empty string, "
                "such as OutputTag('late')"
            )

"""Type information: accepted wherever PyFlink takes it, and only descriptive here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["TypeInformation", "Types"]


@dataclass(frozen=True, slots=True)
class TypeInformation:
    """The type of the records of a stream, for documentation.

    Records are pickled, so any type information accepts any picklable record.

    Args:
        name: the type's name.
        arguments: its type arguments.
        field_names: the names of a row's fields, or none.

    Source: PyFlink, `pyflink.common.typeinfo`.

    >>> print(Types.TUPLE([Types.INT(), Types.LIST(Types.STRING())]))
    TUPLE(INT, LIST(STRING))
    """

    name: str
    arguments: tuple[TypeInformation, ...] = ()
    field_names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        parts = [str(argument) for argument in self.arguments]
        if self.field_names:
            named = zip(self.field_names, parts, strict=True)
            parts = [f"{name} {part}" for name, part in named]
        return f"{self.name}({', '.join(parts)})"


class Types:
    """Creates type information, by PyFlink's names.

    Source: PyFlink, `pyflink.common.typeinfo.Types`.

    >>> print(Types.ROW_NAMED(["id", "tags"], [Types.LONG(), Types.LIST(Types.STRING())]))
    ROW(id LONG, tags LIST(STRING))
    """

    @staticmethod
    def STRING() -> TypeInformation:
        """Text."""
        return TypeInformation("STRING")

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """True or False."""
        return TypeInformation("BOOLEAN")

    @staticmethod
    def BYTE() -> TypeInformation:
        """An integer of 8 bits."""
        return TypeInformation("BYTE")

    @staticmethod
    def SHORT() -> TypeInformation:
        """An integer of 16 bits."""
        return TypeInformation("SHORT")

    @staticmethod
    def INT() -> TypeInformation:
        """An integer of 32 bits."""
        return TypeInformation("INT")

    @staticmethod
    def LONG() -> TypeInformation:
        """An integer of 64 bits."""
        return TypeInformation("LONG")

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """An integer of any size."""
        return TypeInformation("BIG_INT")

    @staticmethod
    def FLOAT() -> TypeInformation:
        """A floating point number of 32 bits."""
        return TypeInformation("FLOAT")

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """A floating point number of 64 bits."""
        return TypeInformation("DOUBLE")

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """A decimal number."""
        return TypeInformation("BIG_DEC")

    @staticmethod
    def CHAR() -> TypeInformation:
        """One character."""
        return TypeInformation("CHAR")

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """A date."""
        return TypeInformation("SQL_DATE")

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """A time of day."""
        return TypeInformation("SQL_TIME")

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """A date and a time of day."""
        return TypeInformation("SQL_TIMESTAMP")

    @staticmethod
    def INSTANT() -> TypeInformation:
        """A point in time."""
        return TypeInformation("INSTANT")

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any object that can be pickled."""
        return TypeInformation("PICKLED_BYTE_ARRAY")

    @staticmethod
    def TUPLE(types: Sequence[TypeInformation]) -> TypeInformation:
        """A tuple.

        Args:
            types: of its fields, in order.
        """
        return TypeInformation("TUPLE", tuple(types))

    @staticmethod
    def ROW(types: Sequence[TypeInformation]) -> TypeInformation:
        """A row whose fields have no names.

        Args:
            types: of its fields, in order.
        """
        return TypeInformation("ROW", tuple(types))

    @staticmethod
    def ROW_NAMED(names: Sequence[str], types: Sequence[TypeInformation]) -> TypeInformation:
        """A row whose fields have names.

        Args:
            names: of its fields, in order.
            types: of its fields, in the same order.
        """
        return TypeInformation("ROW", tuple(types), tuple(names))

    @staticmethod
    def LIST(element_type: TypeInformation) -> TypeInformation:
        """A list.

        Args:
            element_type: the type of its elements.
        """
        return TypeInformation("LIST", (element_type,))

    @staticmethod
    def MAP(key_type: TypeInformation, value_type: TypeInformation) -> TypeInformation:
        """A mapping.

        Args:
            key_type: the type of its keys.
            value_type: the type of its values.
        """
        return TypeInformation("MAP", (key_type, value_type))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """An array of numbers.

        Args:
            element_type: the type of its elements.
        """
        return TypeInformation("PRIMITIVE_ARRAY", (element_type,))

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """An array of objects.

        Args:
            element_type: the type of its elements.
        """
        return TypeInformation("OBJECT_ARRAY", (element_type,))

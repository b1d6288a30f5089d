from __future__ import annotations

import pickle

import pytest

from holdfast.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    TypeInformation,
    Types,
    ValueStateDescriptor,
)
from holdfast.plan.function_digest import digest_value


def test_tags_of_one_name_are_one_side_output() -> None:
    assert OutputTag("late") == OutputTag("late", Types.INT())
    assert hash(OutputTag("late")) == hash(OutputTag("late", Types.INT()))
    assert OutputTag("late") != OutputTag("early")
    assert pickle.loads(pickle.dumps(OutputTag("late", Types.INT()))) == OutputTag("late")


@pytest.mark.parametrize("name", ["", None, 1])
def test_a_tag_needs_a_name(name: object) -> None:
    with pytest.raises(ValueError, match=r"tag_id.*expected a non-empty string"):
        OutputTag(name)  # type: ignore[arg-type]


def test_type_information_is_a_value_that_describes() -> None:
    def made() -> TypeInformation:
        values = Types.PRIMITIVE_ARRAY(Types.BYTE())
        return Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.MAP(Types.LONG(), values)])

    assert str(made()) == "ROW(k STRING, v MAP(LONG, PRIMITIVE_ARRAY(BYTE)))"
    assert made() == made() == pickle.loads(pickle.dumps(made()))
    assert digest_value(made()) == digest_value(pickle.loads(pickle.dumps(made())))
    assert ValueStateDescriptor("seen", made()) == ValueStateDescriptor("seen", made())


@pytest.mark.parametrize(
    "base",
    [
        FilterFunction,
        FlatMapFunction,
        KeyedProcessFunction,
        KeySelector,
        MapFunction,
        ProcessFunction,
        ReduceFunction,
    ],
)
def test_a_function_without_its_method_can_not_be_made(base: type) -> None:
    with pytest.raises(TypeError, match="abstract"):
        type("Unfinished", (base,), {})()

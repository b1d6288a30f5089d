"""Why a similar result is not read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.cataloged_result import MadeFrom
from holdfast.catalog.near_misses import AskedFor, why_not
from holdfast.plan.file_version import FileVersion
from tests.catalog.conftest import postgresql as postgresql
from tests.catalog.conftest import programs as programs
from tests.catalog.conftest import url as url
from tests.catalog.results import DATASET, OTHER, produced, publish

Programs = Callable[..., Catalog]
SETTINGS = {"spark.sql.ansi.enabled": "true", "spark.sql.x": "1"}
A, B, C, D = (FileVersion(f"file:/orders/{name}", 1, 2) for name in "abcd")
FILES, CHANGED = (A, B, C), A._replace(modified=3)
MADE_FROM = MadeFrom(FILES, SETTINGS)
RESULT = produced(made_from=MADE_FROM)
ASKED = AskedFor(DATASET, RESULT.digest, RESULT.shape, MADE_FROM)


def why(
    catalog: Catalog,
    asked: AskedFor,
    unreadable: Callable[[Collection[str]], str | None] = lambda _: None,
) -> str | None:
    near = catalog.search.near([asked]).get(asked.digest)
    if near is None:
        return None
    found = why_not(*near, unreadable)
    assert found.startswith("kept by ana on node-1 at 20")
    return found.partition(" UTC, ")[2]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ((A, B), "stale: file:/orders/c went since"),
        ((*FILES, D), "stale: file:/orders/d came since"),
        ((CHANGED, B, C), "stale: file:/orders/a changed since"),
        (
            (CHANGED, B._replace(tag="inode 7")),
            "stale: file:/orders/a and 1 more changed since; file:/orders/c went since",
        ),
        (FILES, "stale: its files were listed in another way"),
    ],
)
def test_other_files(programs: Programs, files: tuple[FileVersion, ...], expected: str) -> None:
    publish(programs(), made_from=MADE_FROM)
    asked = AskedFor(OTHER, "f" * 64, ASKED.shape, MadeFrom(files, SETTINGS))
    assert why(programs(), asked) == expected


def test_other_settings_and_what_may_not_be_read(programs: Programs) -> None:
    publish(programs(), made_from=MADE_FROM)
    settings = {"spark.sql.ansi.enabled": "false", "spark.sql.y": "2"}
    asked = replace(ASKED, dataset_id=OTHER, made_from=MadeFrom(FILES, settings))
    assert why(programs(), asked) == (
        "under other settings: spark.sql.ansi.enabled is 'false' and was 'true'; "
        "spark.sql.x is not set and was '1'; spark.sql.y is '2' and was not set"
    )
    assert why(programs(), ASKED, lambda paths: sorted(paths)[1]) == (
        "not permitted: file:/orders/b can't be read by this user"
    )


def test_what_is_another_user_s_is_not_talked_of(programs: Programs) -> None:
    publish(programs(), made_from=MADE_FROM)
    assert why(programs("bo"), ASKED) is None
    publish(programs(), OTHER, made_from=MADE_FROM, audience=Audience.ALL)
    other = produced(OTHER)
    bo = programs("bo", shares_with=Audience.ALL)
    assert why(bo, AskedFor(OTHER, other.digest, other.shape, MADE_FROM)) is not None

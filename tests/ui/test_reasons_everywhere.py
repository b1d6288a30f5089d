"""Each reason why a result is not read everywhere, or not kept, wherever results are shown."""

from __future__ import annotations

import hashlib
import html
import json
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from holdfast.api.cached_data_set import CachedDataSet, CachedDataSets
from holdfast.api.job_execution_result import JobExecutionResult
from holdfast.catalog.catalog_url import in_directory
from holdfast.cli.datasets.dataset_source import Records
from holdfast.cli.main import main
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.reasons import Reason, Why
from holdfast.plan.validity import Validity
from holdfast.runtime.execution_graph import ExecutionVertex
from holdfast.runtime.partitions import BlockingPersistentResultPartitionMeta
from holdfast.runtime.result_book import ProductionFacts
from tests.catalog.programs import book_of, keep, written
from tests.ui.conftest import Serve

WHAT = ("<a thing & another>", "of it")
EACH = {why.name: why.of(*WHAT) for why in Why}


def dataset(reason: Reason) -> IntermediateDataSetID:
    return IntermediateDataSetID(hashlib.sha256(reason.kind.encode()).hexdigest())


def test_every_reason_is_shown_wherever_results_are_seen_from_outside(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book, storage, catalog = book_of(tmp_path, str(in_directory(tmp_path)))
    ids = {}
    try:
        for reason in EACH.values():
            dataset_id, digest = dataset(reason), f"{reason.kind:x<64}"
            if reason.where is Validity.NOWHERE:
                book.refused(dataset_id, digest, f"computes {reason.kind}", reason)
                continue
            facts = ProductionFacts(is_checkable=True, lifetime=60.0, reasons=(reason,))
            keep(book, dataset_id, digest, partial(written, storage, dataset_id, [(1,)]), facts)
        for result in catalog.reading.all():
            ids[result.reasons[0].kind] = result.name
        assert ids.keys() == {
            each.kind for each in EACH.values() if each.where is not Validity.NOWHERE
        }
        directory = ["--directory", str(tmp_path)]
        assert main(["ls", *directory]) == 0
        listed = capsys.readouterr().out
        assert main(["ls", "--json", *directory]) == 0
        objects = {each["id"]: each["reasons"] for each in json.loads(capsys.readouterr().out)}
        assert main(["why", "--last", "100", *directory]) == 0
        why = capsys.readouterr().out
        url = serve(*directory).url
        pages = {
            path: html.unescape(ask(f"{url}{path}"))
            for path in ("/results?state=all", "/results.csv?state=all", "/why")
        }
        for kind, reason in EACH.items():
            said = reason.sentence
            assert said in listed and said in why
            assert all(said in page for page in pages.values()), kind
            if kind in ids:
                assert objects[ids[kind]] == [
                    {"kind": kind, "where": reason.where.name, "text": str(reason)}
                    | {"sentence": said}
                ]
                assert said in html.unescape(ask(f"{url}/results/{ids[kind]}"))
                for command in ("show", "why"):
                    assert main([command, ids[kind], *directory]) == 0
                    assert said in capsys.readouterr().out
    finally:
        book.close()
        storage.close()


@pytest.mark.parametrize("reason", EACH.values(), ids=EACH)
def test_every_reason_is_shown_by_the_program_itself(reason: Reason) -> None:
    listed = CachedDataSet("it", "d" * 64, None, 0, 0, 0, None, (), None, 0, 0.0, reasons=(reason,))
    assert f"it: {reason.sentence}" in repr(CachedDataSets([listed]))
    is_kept = reason.where is not Validity.NOWHERE
    assert listed.not_kept_by_holdfast == (None if is_kept else str(reason))
    assert bool(listed.matches_only_itself) == (reason.where in (Validity.NODE, Validity.SESSION))
    vertex = ExecutionVertex(JobVertexID("ab" * 16), "it", dataset(reason), reasons=(reason,))
    nothing = BlockingPersistentResultPartitionMeta({}, frozenset())
    result = JobExecutionResult(JobID("ab" * 16), "count", 0.1, nothing, (vertex,))
    assert f"it: {reason.sentence}" in repr(result)
    assert vertex.reason == (None if is_kept else str(reason))


def test_what_was_recorded_by_another_version_is_read() -> None:
    for reason in EACH.values():
        assert Reason.read(json.loads(json.dumps(reason.recorded()))) == reason
    assert Reason.read(["OF_TOMORROW", "SESSION", "it"]).sentence.endswith("program reads it: it")


def test_what_is_kept_after_all_is_not_said_to_be_refused(tmp_path: Path) -> None:
    book, storage, catalog = book_of(tmp_path, str(in_directory(tmp_path)))
    try:
        reason = Why.SETTING_CHANGED.of()
        book.refused(dataset(reason), "d" * 64, "it", reason)
        book.refused(dataset(reason), "d" * 64, "it", reason)
        write = partial(written, storage, dataset(reason), [(1,)])
        assert len(Records.of(catalog).not_kept) == 1
        keep(book, dataset(reason), "d" * 64, write, ProductionFacts(is_checkable=True))
        assert Records.of(catalog).not_kept == ()
    finally:
        book.close()
        storage.close()


def ask(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())

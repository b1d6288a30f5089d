"""Who gets the results that are sealed: the user's other programs, where they have the same key."""

from __future__ import annotations

import pyarrow
import pyarrow.parquet
import pytest

from holdfast.catalog.audience import Audience
from holdfast.ids import JobID
from holdfast.plan.reasons import Why
from holdfast.storage.kept_dataset import DataSetDescription
from holdfast.storage.sealed_batches import OWN_CLASSES
from tests.catalog.conftest import postgresql as postgresql
from tests.catalog.conftest import url as url
from tests.catalog.results import DATASET
from tests.catalog.sharing import FOR_LONG, Program, Start
from tests.catalog.sharing import start as start


def produce(program: Program, counts: list[int]) -> None:
    """A job that keeps sealed batches of so many records each."""
    claim, job = program.claims(), JobID.random()
    staged = program.storage.stage(job, DATASET)
    table = pyarrow.table({"records": pyarrow.array(counts, pyarrow.int32())})
    pyarrow.parquet.write_table(table, staged.directory / "part-00000-x-c000.parquet")
    described = DataSetDescription(
        dataset_id=DATASET.hex, computes="batches", columns=(), spark_version="", seal="label"
    )
    kept = program.storage.publish(staged, described)
    program.storage.end_job(job)
    program.book.release([program.book.commit(claim, kept, wanted=True, facts=FOR_LONG)])


def finds(program: Program) -> bool:
    """Whether a job finds it, and reads it."""
    found = DATASET in program.book.find([DATASET])
    with program.book.reading() as lease:
        assert (lease.acquire(DATASET) is not None) == found
    return found


def test_programs_of_one_user_read_them_with_the_key_they_have_in_common(start: Start) -> None:
    produce(start(), [1, 400])
    other = start(has_key=False)
    assert finds(start()) and not finds(other)
    produce(other, [1, 400])
    (offered, own) = other.catalog.search.all()
    assert (offered.audience, own.audience) == (Audience.USER, Audience.NOBODY)
    assert (offered.reasons, own.reasons) == ((), (Why.OWN_SEAL.of("no key"),))
    # What it can't read is not damaged, and stays for those who can.
    assert finds(start())


def test_they_are_for_no_other_user_whatever_else_is_shared(start: Start) -> None:
    produce(start("ana", Audience.ALL), [1, 400])
    assert not finds(start("bob", Audience.ALL)) and finds(start("ana", Audience.ALL))


def test_those_whose_records_bring_classes_along_are_for_their_program(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    program = start()
    produce(program, [1, OWN_CLASSES + 2])
    assert finds(program) and not finds(start())
    (result,) = program.catalog.search.all()
    assert result.audience is Audience.NOBODY and result.lifetime is None
    assert result.reasons == (Why.OWN_CLASSES.of(),)
    assert "Define them in a module" in caplog.text

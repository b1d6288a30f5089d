from __future__ import annotations

import copy
import inspect
import json
import pickle

import pytest

from holdfast import errors
from holdfast.errors import (
    AlreadyAttachedError,
    BatchSealBrokenError,
    CatalogError,
    CatalogVersionError,
    ClaimFencedError,
    ConfigurationError,
    DuplicateRegistrationError,
    EnvironmentClosedError,
    EventLogError,
    HoldfastError,
    HoldingRefusedError,
    InvalidKeyError,
    InvalidStreamArgumentError,
    InvalidTransformationError,
    KeptPartitionLostError,
    KeyedStateError,
    LocationsIncompleteError,
    MalformedRequestError,
    MixedInputsError,
    NoSinksError,
    NotADataFrameError,
    NotAttachedError,
    OperatorFailedError,
    PageError,
    RecordNotSerializableError,
    RecordsRepeatedError,
    RequestTooLargeError,
    SessionStoppedError,
    SinkError,
    SinkTargetExistsError,
    StaleEpochError,
    StorageError,
    StreamNotShareableError,
    StreamTaskError,
    TaskExecutorError,
    TaskExecutorUnreachableError,
    UnauthorizedError,
    UnknownApplicationError,
    UnknownDataSetError,
    UnknownJobError,
    UnknownPartitionError,
    UnknownTaskExecutorError,
    UnsupportedFeatureError,
    UnsupportedPlanError,
    UnsupportedSessionError,
    UnsupportedSparkError,
    UnsupportedTypeError,
    VersionMismatchError,
    WorkerModuleMissingError,
)

EXAMPLES = [
    (SessionStoppedError(), ["has been stopped", "builder.getOrCreate()"]),
    (NotADataFrameError("a dict"), ["found a dict", "env.createDataFrame("]),
    (StreamNotShareableError("group"), ["'group'", "run code", "lifetime='application'"]),
    (ConfigurationError("a.key", "x", "expected a number"), ["a.key", "'x'", "expected a number"]),
    (UnsupportedTypeError("when", "INTERVAL"), ["'when'", "INTERVAL", "Cast or drop the column"]),
    (UnsupportedPlanError("cache()", "the table streams"), ["cache()", "the table streams"]),
    (UnsupportedSessionError("a remote session"), ["a remote session", "classic Spark session"]),
    (AlreadyAttachedError(), ["attached already", "holdfast.attach(spark)", "holdfast.detach"]),
    (NotAttachedError(), ["not attached", "holdfast.attach()", "nothing to detach"]),
    (UnsupportedSparkError("Reader", "no class X"), ["Reader", "no class X", "Start the session"]),
    (EnvironmentClosedError("count()"), ["count()", "closed", "new Environment"]),
    (CatalogError("sqlite:////c.db", "it is locked"), ["sqlite:////c.db", "it is locked"]),
    (
        CatalogVersionError("sqlite:////c.db", "0009", "0001"),
        ["sqlite:////c.db", "0009", "0001", "Upgrade Holdfast", "catalog.url"],
    ),
    (ClaimFencedError("sqlite:////c.db", "ab12", 3), ["ab12", "epoch 3", "another program"]),
    (StorageError("/kept", "belongs to another user"), ["/kept", "belongs to another user"]),
    (KeptPartitionLostError(("ab12", "cd34"), "a file is gone"), ["ab12", "cd34", "run the job"]),
    (LocationsIncompleteError("ab12", "partition 3"), ["ab12", "partition 3"]),
    (UnknownApplicationError("ab12"), ["ab12", "expected one whose lease", "Register it again"]),
    (UnknownJobError("cd34"), ["job cd34", "expected one that was registered", "Register the job"]),
    (UnknownDataSetError("ef56", "a promoted one"), ["ef56", "a promoted one", "holdfast ls"]),
    (UnknownPartitionError("ef56/7", "a finished one"), ["ef56/7", "a finished one", "recompute"]),
    (UnknownTaskExecutorError("left"), ["task executor left", "expected", "Register it first"]),
    (
        DuplicateRegistrationError("job cd34", "Use another."),
        ["job cd34", "expected one", "Use another."],
    ),
    (VersionMismatchError("executor left", "1", "2"), ["left", "Holdfast 1", "2", "install"]),
    (
        MalformedRequestError("promote", "no output"),
        ["promote", "no output", "Nothing was changed"],
    ),
    (HoldingRefusedError("it has none"), ["it has none", "--catalog-url", "`catalog.url`"]),
    (RequestTooLargeError("promote", 1024), ["promote", "at most 1024 bytes", "smaller requests"]),
    (UnauthorizedError("promote"), ["promote", "expected the task executor's token", "Set it"]),
    (OperatorFailedError("Map", "KeyError: 'a'", "line 1"), ["'Map'", "KeyError: 'a'", "\nline 1"]),
    (
        RecordNotSerializableError("Map", "lock", "no"),
        ["'Map'", "type lock that can", "Expected a picklable record"],
    ),
    (RecordsRepeatedError(3, 7), ["subtask 3", "7 of its records", "Collect the stream again"]),
    (InvalidKeyError("Sum", "[1]", "unhashable"), ["'Sum'", "[1]", "unhashable", "Expected"]),
    (BatchSealBrokenError("ab12"), ["ab12", "expected a valid seal", "recomputed when needed"]),
    (UnsupportedFeatureError("a timer", "Use state."), ["a timer", "not supported", "Use state."]),
    (KeyedStateError("seen", "no key: use key_by()"), ["'seen'", "no key", "use key_by()"]),
    (EventLogError("/logs/app.lz4", "is compressed"), ["event log /logs/app.lz4", "is compressed"]),
    (PageError("the port is taken"), ["the page", "the port is taken"]),
    (StaleEpochError("/ha/job", 3, 4), ["/ha/job", "epoch 3", "epoch 4", "stop this one"]),
    (MixedInputsError("save", "a.csv is gone"), ["save", "a.csv is gone", "Restore the files"]),
    (SinkError("/out", "it is a file"), ["/out", "it is a file"]),
    (SinkTargetExistsError("/out"), ["/out", "the mode expects", '"append"']),
    (NoSinksError(), ["nothing to run", "at least one sink", "print()"]),
    (WorkerModuleMissingError("words"), ["'words'", "expected the packages", "PYSPARK_PYTHON"]),
    (InvalidStreamArgumentError("map()", 3, "a function"), ["map() got 3", "a function"]),
    (InvalidTransformationError("Map", "no input: expected one"), ["'Map'", "expected one"]),
    (
        TaskExecutorUnreachableError("left", "timed out"),
        ["left", "timed out", "check that it"],
    ),
]


@pytest.mark.parametrize(("error", "parts"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_a_message_names_the_thing_and_what_to_do(error: HoldfastError, parts: list[str]) -> None:
    for part in parts:
        assert part in str(error)


@pytest.mark.parametrize("error", [error for error, _ in EXAMPLES], ids=lambda e: type(e).__name__)
def test_an_error_survives_pickling_and_copying(error: HoldfastError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_every_error_is_holdfast_s_and_has_an_example_here() -> None:
    defined = {
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, BaseException)
    }
    assert all(issubclass(member, HoldfastError) for member in defined)
    assert defined == {
        HoldfastError,
        StreamTaskError,
        TaskExecutorError,
        *(type(error) for error, _ in EXAMPLES),
    }


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(UnsupportedTypeError, TypeError)


@pytest.mark.parametrize(
    "error",
    [error for error, _ in EXAMPLES if isinstance(error, TaskExecutorError)],
    ids=lambda e: type(e).__name__,
)
def test_a_task_executor_s_error_can_be_made_again_from_json(error: TaskExecutorError) -> None:
    arguments = json.loads(json.dumps(vars(error)))
    again = type(error)(**arguments)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert str(type(error)(*arguments.values())) == str(error)

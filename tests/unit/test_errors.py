"""Every error names the thing, what was expected and what to do, and survives pickling."""

from __future__ import annotations

import copy
import inspect
import json
import pickle

import pytest

from holdfast import errors
from holdfast.errors import (
    ConfigurationError,
    HoldfastError,
    StreamTaskError,
    TaskExecutorError,
    UnsupportedTypeError,
)

# With which arguments each is made, and what its message says beside those that are texts.
EXAMPLES: dict[str, tuple[tuple[object, ...], str]] = {
    "AlreadyAttachedError": ((), "attached already"),
    "BatchSealBrokenError": (("ab12",), "expected a valid seal"),
    "CatalogError": (("sqlite:////c.db", "it is locked"), ""),
    "CatalogVersionError": (("sqlite:////c.db", "0009", "0001"), "Upgrade Holdfast"),
    "ClaimFencedError": (("sqlite:////c.db", "ab12", 3), "epoch 3"),
    "ConfigurationError": (("a.key", "x", "expected a number"), ""),
    "DuplicateRegistrationError": (("job cd34", "Use another."), "expected one"),
    "EnvironmentClosedError": (("count()",), "new Environment"),
    "EventLogError": (("/logs/app.lz4", "is compressed"), ""),
    "HoldingRefusedError": (("it has none",), "--catalog-url"),
    "InvalidKeyError": (("Sum", "[1]", "unhashable"), "Expected"),
    "InvalidStreamArgumentError": (("map()", 3, "a function"), "map() got 3"),
    "InvalidTransformationError": (("Map", "no input: expected one"), ""),
    "KeptPartitionLostError": ((("ab12", "cd34"), "a file is gone"), "run the job"),
    "KeyedStateError": (("seen", "no key: use key_by()"), ""),
    "LocationsIncompleteError": (("ab12", "partition 3"), ""),
    "MalformedRequestError": (("promote", "no output"), "Nothing was changed"),
    "MixedInputsError": (("save", "a.csv is gone"), "Restore the files"),
    "NoSinksError": ((), "at least one sink"),
    "NotADataFrameError": (("a dict",), "env.createDataFrame("),
    "NotAttachedError": ((), "holdfast.attach()"),
    "OperatorFailedError": (("Map", "KeyError: 'a'", "line 1"), ""),
    "PageError": (("the port is taken",), "the page"),
    "RecordNotSerializableError": (("Map", "lock", "no"), "Expected a picklable record"),
    "RecordsRepeatedError": ((3, 7), "7 of its records"),
    "RequestTooLargeError": (("promote", 1024), "at most 1024 bytes"),
    "SessionStoppedError": ((), "builder.getOrCreate()"),
    "SinkError": (("/out", "it is a file"), ""),
    "SinkTargetExistsError": (("/out",), "the mode expects"),
    "StaleEpochError": (("/ha/job", 3, 4), "stop this one"),
    "StorageError": (("/kept", "belongs to another user"), ""),
    "StreamNotShareableError": (("group",), "lifetime='application'"),
    "TaskExecutorUnreachableError": (("left", "timed out"), "check that it"),
    "UnauthorizedError": (("promote",), "expected the task executor's token"),
    "UnknownApplicationError": (("ab12",), "Register it again"),
    "UnknownDataSetError": (("ef56", "a promoted one"), "holdfast ls"),
    "UnknownJobError": (("cd34",), "Register the job"),
    "UnknownPartitionError": (("ef56/7", "a finished one"), "recompute"),
    "UnknownTaskExecutorError": (("left",), "Register it first"),
    "UnsupportedFeatureError": (("a timer", "Use state."), "not supported"),
    "UnsupportedPlanError": (("cache()", "the table streams"), ""),
    "UnsupportedSessionError": (("a remote session",), "classic Spark session"),
    "UnsupportedSparkError": (("Reader", "no class X"), "Start the session"),
    "UnsupportedTypeError": (("when", "INTERVAL"), "Cast or drop the column"),
    "VersionMismatchError": (("executor left", "1", "2"), "install"),
    "WorkerModuleMissingError": (("words",), "PYSPARK_PYTHON"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_message_names_the_thing_and_what_to_do(name: str) -> None:
    arguments, said = EXAMPLES[name]
    error = getattr(errors, name)(*arguments)
    for part in (said, *(each for each in arguments if isinstance(each, str))):
        assert part in str(error)
    made = [pickle.loads(pickle.dumps(error)), copy.copy(error)]
    if isinstance(error, TaskExecutorError):
        # It comes over the network as JSON.
        made.append(type(error)(**json.loads(json.dumps(vars(error)))))
    for again in made:
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_every_error_is_holdfast_s_and_has_an_example_here() -> None:
    defined = {
        name: member
        for name, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, BaseException)
    }
    assert all(issubclass(member, HoldfastError) for member in defined.values())
    bases = {each.__name__ for each in (HoldfastError, StreamTaskError, TaskExecutorError)}
    assert defined.keys() == EXAMPLES.keys() | bases
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(UnsupportedTypeError, TypeError)

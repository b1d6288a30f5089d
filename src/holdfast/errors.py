"""Everything that Holdfast raises on its own account.

Each error names the thing, says what was expected, and what to do.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, Self


class HoldfastError(Exception):
    """The base of all errors of Holdfast's own. Each can be pickled and copied."""

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[Any, ...], dict[str, Any]]:
        # By default an exception is made again from its message, which no subclass takes.
        return type(self)._restored, self.args, self.__dict__

    @classmethod
    def _restored(cls, *args: Any) -> Self:
        return cls.__new__(cls, *args)


class ConfigurationError(HoldfastError, ValueError):
    """A configuration key is unknown, or its value is not of the key's type.

    Args:
        key: the key as it was given.
        value: its value.
        expected: what is expected instead.
    """

    def __init__(self, key: str, value: object, expected: str) -> None:
        super().__init__(f"configuration key {key!r} with value {value!r}: {expected}")
        self.key = key
        self.value = value
        self.expected = expected


class UnsupportedTypeError(HoldfastError, TypeError):
    """A table with a column that Parquet can't hold was to be cached.

    Args:
        column: the column's name.
        data_type: its type, as SQL writes it.
    """

    def __init__(self, column: str, data_type: str) -> None:
        super().__init__(
            f"column {column!r} of type {data_type} can't be kept: Spark can't write this type to "
            "Parquet. Cast the column, or drop it, before cache()."
        )
        self.column = column
        self.data_type = data_type


class UnsupportedPlanError(HoldfastError):
    """Something was asked of a plan that is not possible with it.

    Args:
        what: the plan or the operation.
        why: what stands against it, and what to do.
    """

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why


class UnsupportedSessionError(HoldfastError):
    """An environment was to be made over a session that is not a classic Spark session.

    Args:
        found: what was given instead.
    """

    def __init__(self, found: str) -> None:
        super().__init__(
            f"expected a classic Spark session in this process, found {found}. Holdfast rewrites "
            "plans in the driver, which Spark Connect keeps out of reach: use "
            "SparkSession.builder.master(...).getOrCreate()."
        )
        self.found = found


class UnsupportedSparkError(HoldfastError):
    """The session's JVM has another Spark than plans can be read of.

    Args:
        name: the class of Holdfast's that it can't compile, or can't run.
        why: what it says.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"class {name} can't be made in Spark's JVM ({why}): expected the Spark of the "
            "installed PySpark, with the Janino compiler that it comes with. Start the session "
            "with that one; where this can't be, queries run as they do without Holdfast."
        )
        self.name = name
        self.why = why


class EnvironmentClosedError(HoldfastError):
    """A job was started in an environment that has been closed.

    Args:
        what: what was to be done.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: the environment has been closed and what it kept is gone. Make a new "
            "Environment, or use to_dataframe() before closing."
        )
        self.what = what


class StorageError(HoldfastError):
    """Results can't be kept where they were to be kept.

    Args:
        where: the directory.
        why: what went wrong.
    """

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
        self.why = why


class LocationsIncompleteError(StorageError):
    """A dataset was computed, but where some of its partitions lie could not be collected.

    Source: FLINK-12406, "Failure Handling".

    Args:
        where: the dataset.
        why: which partitions, and what went wrong.
    """


class KeptPartitionLostError(HoldfastError):
    """Kept data was lost while rows of it had been handed out already.

    Args:
        dataset_ids: the datasets, which have been invalidated.
        why: what is wrong with them.
    """

    def __init__(self, dataset_ids: tuple[str, ...], why: str) -> None:
        super().__init__(
            f"kept data of {', '.join(dataset_ids)} was lost after the first rows had been handed "
            f"out ({why}). It has been invalidated: run the job again, and it computes them again."
        )
        self.dataset_ids = dataset_ids
        self.why = why


class TaskExecutorError(HoldfastError):
    """The base of what goes wrong between a job master and its task executors.

    `vars(error)` is what the error's type takes, so that one process can send it to another.
    """


class UnknownApplicationError(TaskExecutorError):
    """An application is not registered with a task executor, or no longer.

    Args:
        application: the application's id.
    """

    def __init__(self, application: str) -> None:
        super().__init__(
            f"application {application} is not registered with this task executor: expected one "
            "whose lease has not lapsed since the executor's start. Register it again; what had "
            "been kept for it here is gone."
        )
        self.application = application


class UnknownJobError(TaskExecutorError):
    """A job is not registered with a task executor, or has ended.

    Args:
        job_id: the job's id.
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id} is not registered with this task executor: expected one that was "
            "registered and has not ended. Register the job before it writes partitions."
        )
        self.job_id = job_id


class UnknownDataSetError(TaskExecutorError):
    """A dataset is not known here.

    Args:
        dataset: the id of the dataset, or the name of one of its outputs.
        expected: what is expected instead.
    """

    def __init__(self, dataset: str, expected: str) -> None:
        super().__init__(
            f"dataset {dataset} is not known here: expected {expected}. `holdfast ls` shows what "
            "is kept."
        )
        self.dataset = dataset
        self.expected = expected


class UnknownPartitionError(TaskExecutorError):
    """A partition is not known here.

    Args:
        partition: the partition's id.
        expected: what is expected instead.
    """

    def __init__(self, partition: str, expected: str) -> None:
        super().__init__(
            f"partition {partition} is not known here: expected {expected}. It may have been "
            "released or lost: compute its dataset again."
        )
        self.partition = partition
        self.expected = expected


class UnknownTaskExecutorError(TaskExecutorError):
    """A task executor is not registered with the job master, or was lost.

    Args:
        executor: the executor's id.
    """

    def __init__(self, executor: str) -> None:
        super().__init__(
            f"task executor {executor} is not registered with this job master: expected one that "
            "was registered and not lost since. Register it first."
        )
        self.executor = executor


class DuplicateRegistrationError(TaskExecutorError):
    """Something is registered a second time.

    Args:
        what: the thing and its id.
        remedy: what to do instead.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} is registered already: expected each once. {remedy}")
        self.what = what
        self.remedy = remedy


class VersionMismatchError(TaskExecutorError):
    """A job master and a task executor are of different versions of Holdfast.

    Args:
        what: which of them was found to differ.
        found: its version.
        expected: the version of the other.
    """

    def __init__(self, what: str, found: str, expected: str) -> None:
        super().__init__(
            f"{what} is of Holdfast {found}, expected {expected}: install the same version on the "
            "driver and beside every task executor."
        )
        self.what = what
        self.found = found
        self.expected = expected


class MalformedRequestError(TaskExecutorError):
    """A request can't be understood, or contradicts itself or what is known.

    Args:
        request: which one.
        why: what is wrong, and what is expected.
    """

    def __init__(self, request: str, why: str) -> None:
        super().__init__(f"malformed request {request}: {why}. Nothing has been changed by it.")
        self.request = request
        self.why = why


class RequestTooLargeError(TaskExecutorError):
    """A request is larger than a task executor reads.

    Args:
        request: which one.
        limit: how many bytes are allowed.
    """

    def __init__(self, request: str, limit: int) -> None:
        super().__init__(
            f"request {request} is too large: expected at most {limit} bytes. Send it in smaller "
            "parts. Nothing has been changed by it."
        )
        self.request = request
        self.limit = limit


class UnauthorizedError(TaskExecutorError):
    """A request carries no token, or another one than the task executor's.

    Args:
        request: which one.
    """

    def __init__(self, request: str) -> None:
        super().__init__(
            f"request {request} is not allowed: expected the task executor's token. Give it by "
            "HOLDFAST_TOKEN or a token file; an executor that was given none wrote its own to "
            "the file `token` in its directory."
        )
        self.request = request


class TaskExecutorUnreachableError(TaskExecutorError):
    """A task executor doesn't answer, or not as one.

    Args:
        executor: its id or address.
        why: what went wrong.
    """

    def __init__(self, executor: str, why: str) -> None:
        super().__init__(
            f"task executor {executor} can't be reached ({why}): expected one that is running and "
            "answers in time. What it keeps is computed again where it is needed; check that it "
            "runs, and its address."
        )
        self.executor = executor
        self.why = why


class InvalidTransformationError(HoldfastError, ValueError):
    """Streams were put together in a way that no job can be made of.

    Args:
        transformation: the name of the transformation that doesn't fit.
        why: what is wrong with it, what was expected, and what to do.
    """

    def __init__(self, transformation: str, why: str) -> None:
        super().__init__(f"transformation {transformation!r}: {why}.")
        self.transformation = transformation
        self.why = why


class NoSinksError(HoldfastError, ValueError):
    """A job of streams was to be run, or its plan to be shown, that nothing comes out of."""

    def __init__(self) -> None:
        super().__init__(
            "there is nothing to run: expected at least one sink. Add one to a stream, for example "
            "by print() or sink_to()."
        )


class InvalidStreamArgumentError(HoldfastError, TypeError):
    """A stream, or the environment that gives it, was called with something that doesn't fit.

    Args:
        method: what was called.
        found: what it was given.
        expected: what it takes instead.
    """

    def __init__(self, method: str, found: object, expected: str) -> None:
        shown = reprlib.repr(found)
        super().__init__(f"{method} was given {shown}: expected {expected}.")
        self.method = method
        self.found = shown
        self.expected = expected


class StreamTaskError(HoldfastError):
    """The base of what goes wrong in a task of a stream. Each names the operator or the data."""


class WorkerModuleMissingError(StreamTaskError, ImportError):
    """Spark's Python workers can't import what a stream's functions need, or Holdfast itself.

    Args:
        module: what they can't import.
    """

    def __init__(self, module: str) -> None:
        super().__init__(
            f"Spark's Python workers have no module {module!r}: expected the packages of this "
            "program's Python. Set PYSPARK_PYTHON to that Python before Spark starts, and on a "
            "cluster install them on every node, or add your own modules by addPyFile()."
        )
        self.module = module


class OperatorFailedError(StreamTaskError):
    """A person's function raised an error, whose traceback the message ends with.

    Attributes:
        marker: what the message contains wherever it is shown.

    Args:
        operator: the operator's name.
        raised: what was raised: its type and message.
        trace: its traceback, from the person's function on.
    """

    marker = "holdfast-operator-failed"

    def __init__(self, operator: str, raised: str, trace: str = "") -> None:
        super().__init__(
            f"[{self.marker}] operator {operator!r} raised {raised}. The traceback of the cause "
            f"shows where in its function.\n{trace}".rstrip()
        )
        self.operator = operator
        self.raised = raised
        self.trace = trace


class RecordNotSerializableError(StreamTaskError, TypeError):
    """A record can't be sent or kept, since it can't be pickled or is too large.

    Args:
        operator: the name of the operator that the record came out of.
        record_type: the record's type.
        why: what stands against it.
    """

    def __init__(self, operator: str, record_type: str, why: str) -> None:
        super().__init__(
            f"operator {operator!r} gave a record of type {record_type} that can't be sent or "
            f"kept: {why}. Expected one that pickle takes, of less than 2 GiB: give the data that "
            "such an object can be made of again, instead of the object."
        )
        self.operator = operator
        self.record_type = record_type
        self.why = why


class InvalidKeyError(StreamTaskError, TypeError):
    """A key selector gave something that can't be a key.

    Args:
        operator: the name of the operator that works by keys.
        key: what was given, as it shows itself.
        why: what is wrong with it.
    """

    def __init__(self, operator: str, key: str, why: str) -> None:
        super().__init__(
            f"operator {operator!r} got the key {key}: {why}. Expected a hashable value that is "
            "equal to its copies, such as a number, a text, None or a tuple of those."
        )
        self.operator = operator
        self.key = key
        self.why = why


class BatchSealBrokenError(StreamTaskError):
    """Kept records are not what was written there: none of them has been unpickled.

    Attributes:
        marker: what the message contains wherever it is shown.

    Args:
        label: what the records belong to.
    """

    marker = "holdfast-seal-broken"

    def __init__(self, label: str) -> None:
        super().__init__(
            f"[{self.marker}] [{label}] kept records fail the check of their seal: expected "
            "them as they were written. They count as lost, and are computed again where needed."
        )
        self.label = label


class RecordsRepeatedError(HoldfastError):
    """Spark ran a task again of which records had been handed out already.

    Source: Flink's collect sink, which fails likewise where a job without checkpoints restarts.

    Args:
        subtask: which subtask it is.
        records: how many of its records had been handed out.
    """

    def __init__(self, subtask: int, records: int) -> None:
        super().__init__(
            f"subtask {subtask} was started again after {records:,} of its records had been handed "
            "out, so that which are still to come can't be told. Collect the stream again; cache() "
            "it before, and that takes little time."
        )
        self.subtask = subtask
        self.records = records


class UnsupportedFeatureError(HoldfastError, NotImplementedError):
    """Something of PyFlink's was asked for that does not exist here.

    Args:
        feature: what was asked for.
        instead: what to do instead.
    """

    def __init__(self, feature: str, instead: str) -> None:
        super().__init__(f"{feature} is not supported. {instead}")
        self.feature = feature
        self.instead = instead


class KeyedStateError(HoldfastError, RuntimeError):
    """Keyed state was used where there is none.

    Args:
        state: the state's name.
        why: what is wrong, and what to do.
    """

    def __init__(self, state: str, why: str) -> None:
        super().__init__(f"state {state!r}: {why}.")
        self.state = state
        self.why = why


class StaleEpochError(HoldfastError):
    """A start of a job was to act after a newer start of the same job had taken over.

    Args:
        what: what was to be done, and where.
        epoch: the epoch of the start that wanted it.
        newest: the newest epoch that there is.
    """

    def __init__(self, what: str, epoch: int, newest: int) -> None:
        super().__init__(
            f"{what} is refused to epoch {epoch}: expected one above all others, and epoch "
            f"{newest} has taken over. Another driver runs this job by now: end this one."
        )
        self.what = what
        self.epoch = epoch
        self.newest = newest


class MixedInputsError(HoldfastError):
    """A program that was killed can't be ended from one state of its inputs.

    Args:
        job: what is to be written next.
        why: what has become of the files that it is to read.
    """

    def __init__(self, job: str, why: str) -> None:
        super().__init__(
            f"{job} is to read the files that this program read before it was killed, and {why}. "
            "What the program has written can't be told from other rows, so it is not done again. "
            "Bring the files back, or remove what was written and the jobs' directories under "
            "high-availability.storageDir, and start the program again."
        )
        self.job = job
        self.why = why


class SinkError(HoldfastError):
    """The rows of a job can't be written to where they were to go.

    Args:
        target: the directory.
        why: what stands against it, and what to do.
    """

    def __init__(self, target: str, why: str) -> None:
        super().__init__(f"the rows can't be written to {target}: {why}")
        self.target = target
        self.why = why


class SinkTargetExistsError(SinkError):
    """A write was to make a directory that exists.

    Args:
        target: the directory.
    """

    def __init__(self, target: str) -> None:
        super().__init__(
            target,
            'there is something already, and the write was expected to make it. Use mode "append" '
            'or "overwrite", or another path.',
        )

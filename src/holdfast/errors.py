"""All exceptions that Holdfast raises.

Each message names the thing, says what was expected, and what to do.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class HoldfastError(Exception):
    """The base class of all Holdfast errors. Each can be pickled and copied."""

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[Any, ...], dict[str, Any]]:
        # By default an exception is recreated from its message, which no subclass takes.
        return type(self)._restored, self.args, self.__dict__

    @classmethod
    def _restored(cls, *args: Any) -> Self:
        return cls.__new__(cls, *args)


class ConfigurationError(HoldfastError, ValueError):
    """A configuration key is unknown, or its value is not of the key's type.

    Args:
        key: the key as given.
        value: its value.
        expected: what is expected instead.
    """

    def __init__(self, key: str, value: object, expected: str) -> None:
        super().__init__(f"configuration key {key!r} with value {value!r}: {expected}")
        self.key = key
        self.value = value
        self.expected = expected


class UnsupportedTypeError(HoldfastError, TypeError):
    """A table to be cached for longer has a column that Spark can't keep in Parquet.

    Args:
        column: the column's name.
        data_type: its type, as SQL writes it.
    """

    def __init__(self, column: str, data_type: str) -> None:
        super().__init__(
            f"column {column!r} of type {data_type} can't be kept: Spark can't write this type to "
            "Parquet and read it again. Cast or drop the column before cache()."
        )
        self.column = column
        self.data_type = data_type


class UnsupportedPlanError(HoldfastError):
    """An operation is not supported for a plan.

    Args:
        what: the plan or the operation.
        why: why it is not supported, and what to do.
    """

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why


class UnsupportedSessionError(HoldfastError):
    """An environment requires a classic Spark session, and was given something else.

    Args:
        found: what was given instead.
    """

    def __init__(self, found: str) -> None:
        super().__init__(
            f"expected a classic Spark session in this process, found {found}. Holdfast rewrites "
            "plans in the driver, which Spark Connect does not expose: use "
            "SparkSession.builder.master(...).getOrCreate()."
        )
        self.found = found


class SessionStoppedError(HoldfastError):
    """An environment requires a session that runs, and was given one that was stopped."""

    def __init__(self) -> None:
        super().__init__(
            "the Spark session has been stopped: expected one that runs. Create another one with "
            "SparkSession.builder.getOrCreate()."
        )


class NotADataFrameError(HoldfastError, TypeError):
    """A Table was to be made of something that is no DataFrame of Spark's.

    Args:
        found: what was given instead.
    """

    def __init__(self, found: str) -> None:
        super().__init__(
            f"expected a DataFrame of PySpark, found {found}. Rows, and a pandas or Arrow table, "
            "become one with env.createDataFrame(…)."
        )
        self.found = found


class AlreadyAttachedError(HoldfastError):
    """A session that is attached was to be attached with another configuration."""

    def __init__(self) -> None:
        super().__init__(
            "the session is attached already, and its configuration can't be changed: expected "
            "holdfast.attach(spark) without config. Call holdfast.detach(spark) first, which "
            "releases what is kept."
        )


class NotAttachedError(HoldfastError):
    """A session was to be detached that isn't attached."""

    def __init__(self) -> None:
        super().__init__(
            "the session is not attached: expected one that holdfast.attach() has returned. There "
            "is nothing to detach."
        )


class UnsupportedSparkError(HoldfastError):
    """The session's JVM runs a version of Spark whose plans can't be read.

    Args:
        name: Holdfast's class that can't be compiled or run.
        why: the reason that Spark gives.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"class {name} can't be loaded in Spark's JVM ({why}): expected the Spark version of "
            "the installed PySpark, with its bundled Janino compiler. Start the session with that "
            "version; otherwise queries run without Holdfast."
        )
        self.name = name
        self.why = why


class EnvironmentClosedError(HoldfastError):
    """A job was started in an environment that has been closed.

    Args:
        what: the operation.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: the environment has been closed and its kept results were removed. Create a "
            "new Environment, or use to_dataframe() before closing."
        )
        self.what = what


class StorageError(HoldfastError):
    """A storage directory or file can't be used.

    Args:
        where: the directory or file.
        why: what went wrong.
    """

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
        self.why = why


class LocationsIncompleteError(StorageError):
    """A dataset was computed, but the locations of some of its partitions are unknown.

    Source: FLINK-12406, "Failure Handling".

    Args:
        where: the dataset.
        why: which partitions, and what went wrong.
    """


class KeptPartitionLostError(HoldfastError):
    """Kept data was lost after some of its rows had been returned.

    Args:
        dataset_ids: the datasets, which have been invalidated.
        why: what is wrong with them.
    """

    def __init__(self, dataset_ids: tuple[str, ...], why: str) -> None:
        super().__init__(
            f"kept data of {', '.join(dataset_ids)} was lost after the first rows had been "
            f"returned ({why}). It has been invalidated: run the job again to recompute it."
        )
        self.dataset_ids = dataset_ids
        self.why = why


class CatalogError(HoldfastError):
    """The catalog of kept results can't be used. Jobs run without what it would have shared.

    Args:
        catalog: its URL, without a password.
        reason: why.
    """

    def __init__(self, catalog: str, reason: str) -> None:
        super().__init__(f"the catalog {catalog} can't be used: {reason}")
        self.catalog = catalog
        self.reason = reason


class CatalogVersionError(CatalogError):
    """The catalog was made by a later version of Holdfast.

    Args:
        catalog: its URL, without a password.
        found: the version of its tables.
        expected: the version of this Holdfast's.
    """

    def __init__(self, catalog: str, found: str, expected: str) -> None:
        super().__init__(
            catalog,
            f"its tables have version {found}, and this version of Holdfast knows those up to "
            f"{expected}. Upgrade Holdfast, or set another `catalog.url`",
        )
        self.found = found
        self.expected = expected


class ClaimFencedError(CatalogError):
    """A result was produced under a claim that has lapsed since, and that another program took.

    Args:
        catalog: its URL, without a password.
        dataset: the result's dataset.
        epoch: of the claim.
    """

    def __init__(self, catalog: str, dataset: str, epoch: int) -> None:
        super().__init__(
            catalog,
            f"the claim to produce {dataset} with epoch {epoch} has lapsed, and another program "
            "has taken it; the result is not published",
        )
        self.dataset = dataset
        self.epoch = epoch


class StreamNotShareableError(HoldfastError):
    """A stream is to outlive its program where other users may read what programs keep.

    Args:
        audience: who may, as `intermediate-result-storage.sharing` says.
    """

    def __init__(self, audience: str) -> None:
        super().__init__(
            f"a stream can't be cached with a lifetime where results are shared with {audience!r}: "
            "its records are kept as pickles, which run code when they are read, and so are shared "
            "with nobody but the user who has kept them. Cache it with lifetime='application', "
            "cache a table of it, or set intermediate-result-storage.sharing to 'private'"
        )
        self.audience = audience


class TaskExecutorError(HoldfastError):
    """The base class of errors between a job master and its task executors.

    `vars(error)` holds the arguments of the error's type, so that processes can exchange errors.
    """


class UnknownApplicationError(TaskExecutorError):
    """An application is not, or no longer, registered with a task executor.

    Args:
        application: the application's id.
    """

    def __init__(self, application: str) -> None:
        super().__init__(
            f"application {application} is not registered with this task executor: expected one "
            "whose lease has not expired since the executor's start. Register it again; its "
            "partitions here were removed."
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
    """A dataset is unknown to the process that was asked.

    Args:
        dataset: the id of the dataset, or the name of one of its outputs.
        expected: what is expected instead.
    """

    def __init__(self, dataset: str, expected: str) -> None:
        super().__init__(
            f"unknown dataset {dataset}: expected {expected}. `holdfast ls` lists kept datasets."
        )
        self.dataset = dataset
        self.expected = expected


class UnknownPartitionError(TaskExecutorError):
    """A partition is unknown to the process that was asked.

    Args:
        partition: the partition's id.
        expected: what is expected instead.
    """

    def __init__(self, partition: str, expected: str) -> None:
        super().__init__(
            f"unknown partition {partition}: expected {expected}. It may have been released or "
            "lost: recompute its dataset."
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
            "was registered and has not been lost since. Register it first."
        )
        self.executor = executor


class DuplicateRegistrationError(TaskExecutorError):
    """Something is registered a second time.

    Args:
        what: the thing and its id.
        remedy: what to do instead.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} is already registered: expected one registration. {remedy}")
        self.what = what
        self.remedy = remedy


class VersionMismatchError(TaskExecutorError):
    """A job master and a task executor are of different versions of Holdfast.

    Args:
        what: the component whose version differs.
        found: its version.
        expected: the version of the other.
    """

    def __init__(self, what: str, found: str, expected: str) -> None:
        super().__init__(
            f"{what} runs Holdfast {found}, expected {expected}: install the same version on the "
            "driver and for every task executor."
        )
        self.what = what
        self.found = found
        self.expected = expected


class MalformedRequestError(TaskExecutorError):
    """A request is invalid, or inconsistent with itself or the task executor's state.

    Args:
        request: which one.
        why: what is wrong, and what is expected.
    """

    def __init__(self, request: str, why: str) -> None:
        super().__init__(f"malformed request {request}: {why}. Nothing was changed.")
        self.request = request
        self.why = why


class RequestTooLargeError(TaskExecutorError):
    """A request is larger than a task executor accepts.

    Args:
        request: which one.
        limit: how many bytes are allowed.
    """

    def __init__(self, request: str, limit: int) -> None:
        super().__init__(
            f"request {request} is too large: expected at most {limit} bytes. Split it into "
            "smaller requests. Nothing was changed."
        )
        self.request = request
        self.limit = limit


class HoldingRefusedError(TaskExecutorError):
    """A task executor can't hold results for the catalog that a program shares them through.

    Args:
        reason: why.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the task executor can't hold results for the catalog: {reason}. Start it with the "
            "--catalog-url that is the programs' `catalog.url`; until then results go with the "
            "application that keeps them."
        )
        self.reason = reason


class UnauthorizedError(TaskExecutorError):
    """A request carries no token, or not the task executor's.

    Args:
        request: which one.
    """

    def __init__(self, request: str) -> None:
        super().__init__(
            f"request {request} is not authorized: expected the task executor's token. Set it by "
            "HOLDFAST_TOKEN or a token file; an executor started without one generated its own "
            "in the file `token` in its directory."
        )
        self.request = request


class TaskExecutorUnreachableError(TaskExecutorError):
    """A task executor doesn't respond, or its response is not a task executor's.

    Args:
        executor: its id or address.
        why: what went wrong.
    """

    def __init__(self, executor: str, why: str) -> None:
        super().__init__(
            f"task executor {executor} is unreachable ({why}): expected one that is running and "
            "responds in time. Its partitions are recomputed when needed; check that it is "
            "running, and its address."
        )
        self.executor = executor
        self.why = why


class InvalidTransformationError(HoldfastError, ValueError):
    """Streams are combined in a way that is not a valid job.

    Args:
        transformation: the name of the invalid transformation.
        why: what is wrong with it, what was expected, and what to do.
    """

    def __init__(self, transformation: str, why: str) -> None:
        super().__init__(f"transformation {transformation!r}: {why}.")
        self.transformation = transformation
        self.why = why


class NoSinksError(HoldfastError, ValueError):
    """A stream job was to be run, or its plan shown, without any sink."""

    def __init__(self) -> None:
        super().__init__(
            "nothing to run: expected at least one sink. Add one to a stream, for example by "
            "print() or sink_to()."
        )


class InvalidStreamArgumentError(HoldfastError, TypeError):
    """A method of a stream or of its environment was given an invalid argument.

    Args:
        method: the method.
        found: the argument.
        expected: what it accepts instead.
    """

    def __init__(self, method: str, found: object, expected: str) -> None:
        shown = reprlib.repr(found)
        super().__init__(f"{method} got {shown}: expected {expected}.")
        self.method = method
        self.found = shown
        self.expected = expected


class StreamTaskError(HoldfastError):
    """The base class of errors in stream tasks. Each names the operator or the data."""


class WorkerModuleMissingError(StreamTaskError, ImportError):
    """Spark's Python workers can't import Holdfast, or a module that a stream's functions need.

    Args:
        module: the missing module.
    """

    def __init__(self, module: str) -> None:
        super().__init__(
            f"Spark's Python workers have no module {module!r}: expected the packages of this "
            "program's Python. Set PYSPARK_PYTHON to that Python before Spark starts, and on a "
            "cluster install them on every node, or add your own modules by addPyFile()."
        )
        self.module = module


class OperatorFailedError(StreamTaskError):
    """A user function raised an error; the message ends with its traceback.

    Attributes:
        marker: a text that every such message contains.

    Args:
        operator: the operator's name.
        raised: what was raised: its type and message.
        trace: its traceback, starting at the user function.
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
    """A record can't be sent or kept because it can't be pickled or is too large.

    Args:
        operator: the name of the operator that emitted the record.
        record_type: the record's type.
        why: the reason.
    """

    def __init__(self, operator: str, record_type: str, why: str) -> None:
        super().__init__(
            f"operator {operator!r} emitted a record of type {record_type} that can't be sent or "
            f"kept: {why}. Expected a picklable record of less than 2 GiB: emit the data that the "
            "object can be rebuilt from, instead of the object."
        )
        self.operator = operator
        self.record_type = record_type
        self.why = why


class InvalidKeyError(StreamTaskError, TypeError):
    """A key selector returned an invalid key.

    Args:
        operator: the name of the keyed operator.
        key: the representation of the key.
        why: what is wrong with it.
    """

    def __init__(self, operator: str, key: str, why: str) -> None:
        super().__init__(
            f"operator {operator!r} got the key {key}: {why}. Expected a hashable value that is "
            "equal to its copies, such as a number, a string, None or a tuple of these."
        )
        self.operator = operator
        self.key = key
        self.why = why


class BatchSealBrokenError(StreamTaskError):
    """Kept records fail their integrity check; none of them was unpickled.

    Attributes:
        marker: a text that every such message contains.

    Args:
        label: identifies what the records belong to.
    """

    marker = "holdfast-seal-broken"

    def __init__(self, label: str) -> None:
        super().__init__(
            f"[{self.marker}] [{label}] kept records fail their integrity check: expected a valid "
            "seal. They count as lost and are recomputed when needed."
        )
        self.label = label


class RecordsRepeatedError(HoldfastError):
    """Spark reran a task some of whose records had already been returned.

    Source: Flink's collect sink, which fails likewise when a job without checkpoints restarts.

    Args:
        subtask: the index of the subtask.
        records: how many of its records had been returned.
    """

    def __init__(self, subtask: int, records: int) -> None:
        super().__init__(
            f"subtask {subtask} was rerun after {records:,} of its records had been returned, so "
            "which ones remain is unknown. Collect the stream again; after cache() that takes "
            "little time."
        )
        self.subtask = subtask
        self.records = records


class UnsupportedFeatureError(HoldfastError, NotImplementedError):
    """A feature of PyFlink that Holdfast doesn't support was used.

    Args:
        feature: the feature.
        instead: what to do instead.
    """

    def __init__(self, feature: str, instead: str) -> None:
        super().__init__(f"{feature} is not supported. {instead}")
        self.feature = feature
        self.instead = instead


class KeyedStateError(HoldfastError, RuntimeError):
    """Keyed state was used where none is available.

    Args:
        state: the state's name.
        why: what is wrong, and what to do.
    """

    def __init__(self, state: str, why: str) -> None:
        super().__init__(f"state {state!r}: {why}.")
        self.state = state
        self.why = why


class EventLogError(HoldfastError):
    """An event log of Spark's can't be read.

    Args:
        path: the log, or the directory of logs.
        why: what is wrong with it, and what to do.
    """

    def __init__(self, path: object, why: str) -> None:
        super().__init__(f"event log {path}: {why}")
        self.path = path
        self.why = why


class PageError(HoldfastError):
    """The page that shows what is kept can't be served.

    Args:
        why: what its process has said.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"the page can't be served: {why}")
        self.why = why


class StaleEpochError(HoldfastError):
    """A start of a job acted after a newer start of the same job had fenced it.

    Args:
        what: the rejected operation, and where.
        epoch: the epoch of the start that attempted it.
        newest: the newest epoch.
    """

    def __init__(self, what: str, epoch: int, newest: int) -> None:
        super().__init__(
            f"{what} rejected: epoch {epoch} is fenced by epoch {newest}. Another driver now runs "
            "this job: stop this one."
        )
        self.what = what
        self.epoch = epoch
        self.newest = newest


class MixedInputsError(HoldfastError):
    """A killed program can't be completed from one version of its inputs.

    Args:
        job: the job that is to run next.
        why: what happened to the files that it needs.
    """

    def __init__(self, job: str, why: str) -> None:
        super().__init__(
            f"{job} needs the files that this program read before it was killed, but {why}. The "
            "program's earlier output can't be distinguished from other rows, so it is not "
            "rewritten. Restore the files, or remove that output and the jobs' directories under "
            "high-availability.storageDir, and restart the program."
        )
        self.job = job
        self.why = why


class SinkError(HoldfastError):
    """The rows of a job can't be written to their target.

    Args:
        target: the directory.
        why: the reason, and what to do.
    """

    def __init__(self, target: str, why: str) -> None:
        super().__init__(f"can't write to {target}: {why}")
        self.target = target
        self.why = why


class SinkTargetExistsError(SinkError):
    """The target directory of a write already exists.

    Args:
        target: the directory.
    """

    def __init__(self, target: str) -> None:
        super().__init__(
            target,
            'it already exists, and the mode expects that it does not. Use mode "append" or '
            '"overwrite", or another path.',
        )

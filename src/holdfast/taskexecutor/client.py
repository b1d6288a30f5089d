"""A task executor that is another process, as its job master calls it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import urllib3
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from holdfast.errors import (
    HoldfastError,
    MalformedRequestError,
    StorageError,
    TaskExecutorUnreachableError,
)
from holdfast.ids import ApplicationID, JobID
from holdfast.storage.kept_dataset import KeptPartition, Manifest
from holdfast.taskexecutor import control_calls as calls
from holdfast.taskexecutor import messages as m
from holdfast.taskexecutor.control_calls import ControlCall
from holdfast.taskexecutor.gateway import DataSetReport, Registration, TaskExecutorDescription
from holdfast.taskexecutor.output_part import OutputPart
from holdfast.taskexecutor.partition_info import (
    OutputID,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)
from holdfast.taskexecutor.publication import Publication
from holdfast.taskexecutor.recovered_output import RecoveredOutput
from holdfast.taskexecutor.recovery_claim import RecoveryClaim
from holdfast.taskexecutor.refusals import restored, what_is_wrong

_ADDRESS = re.compile(r"(?:http://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):(\d{1,5})/?")
_CONNECTIONS = 8

Q = TypeVar("Q", bound=m.Message)
A = TypeVar("A", bound=m.Message)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a job master waits for a task executor.

    Attributes:
        connect_seconds: for a connection.
        sign_of_life_seconds: for what needs no work, such as a heartbeat, and for a farewell.
        answer_seconds: for what may read or remove many files.
    """

    connect_seconds: float = 5.0
    sign_of_life_seconds: float = 10.0
    answer_seconds: float = 120.0


class RemoteTaskExecutor:
    """A TaskExecutorGateway over HTTP. Safe for use by several threads.

    Args:
        address: `HOST:PORT`, as the executor says when it starts.
        token: the executor's token.
        timeouts: how long it is waited for.

    Raises:
        StorageError: when the address is none.

    Example:
        >>> RemoteTaskExecutor("node-7:7117", "0123456789abcdef")
        RemoteTaskExecutor('node-7:7117')
    """

    def __init__(self, address: str, token: str, timeouts: Timeouts = Timeouts()) -> None:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match[2]) < 65536:
            raise StorageError(address, "expected a task executor's address as HOST:PORT")
        self.address = f"{match[1]}:{match[2]}"
        self._quick = urllib3.Timeout(timeouts.connect_seconds, timeouts.sign_of_life_seconds)
        self._patient = urllib3.Timeout(timeouts.connect_seconds, timeouts.answer_seconds)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._pool = urllib3.HTTPConnectionPool(
            match[1].strip("[]"), int(match[2]), maxsize=_CONNECTIONS, retries=False
        )

    def __repr__(self) -> str:
        return f"RemoteTaskExecutor({self.address!r})"

    def describe(self) -> TaskExecutorDescription:
        return self._ask(calls.DESCRIBE, self._quick).description

    def register_application(
        self, application: ApplicationID, lease_seconds: float, version: str
    ) -> Registration:
        return self._ask(
            calls.REGISTER_APPLICATION,
            application=application,
            lease_seconds=lease_seconds,
            version=version,
        ).registration

    def register_recovery(
        self,
        application: ApplicationID,
        claim: RecoveryClaim,
        lease_seconds: float,
        version: str,
    ) -> Registration:
        return self._ask(
            calls.REGISTER_RECOVERY,
            application=application,
            job_id=claim.job_id,
            epoch=claim.epoch,
            lease_seconds=lease_seconds,
            version=version,
        ).registration

    def recovered(self, application: ApplicationID) -> tuple[RecoveredOutput, ...]:
        answer = self._ask(calls.RECOVERED, application=application)
        return tuple(each.recovered() for each in answer.outputs)

    def heartbeat(self, application: ApplicationID, hits: Mapping[OutputID, int]) -> str:
        return self._ask(
            calls.HEARTBEAT, self._quick, application=application, hits=dict(hits)
        ).incarnation

    def unregister_application(self, application: ApplicationID) -> None:
        # The end of a program must not wait for one that hangs: its lease lapses all the same.
        self._ask(calls.UNREGISTER_APPLICATION, self._quick, application=application)

    def register_job(self, application: ApplicationID, job_id: JobID) -> None:
        self._ask(calls.REGISTER_JOB, application=application, job_id=job_id)

    def open_output(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        part: OutputPart | None = None,
    ) -> str:
        return self._ask(
            calls.OPEN_OUTPUT, application=application, job_id=job_id, output=output, part=part
        ).directory

    def finish_output(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        indices: Sequence[int] | None,
        number_of_partitions: int | None,
    ) -> tuple[KeptPartition, ...]:
        return self._ask(
            calls.FINISH_OUTPUT,
            application=application,
            job_id=job_id,
            output=output,
            indices=None if indices is None else list(indices),
            number_of_partitions=number_of_partitions,
        ).partitions

    def fail_output(self, application: ApplicationID, job_id: JobID, output: OutputID) -> None:
        self._ask(calls.FAIL_OUTPUT, application=application, job_id=job_id, output=output)

    def link_output(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        source_application: ApplicationID,
        partitions: Sequence[ResultPartitionID],
    ) -> None:
        self._ask(
            calls.LINK_OUTPUT,
            application=application,
            job_id=job_id,
            output=output,
            source_application=source_application,
            partitions=[m.Partition(output=each.output, index=each.index) for each in partitions],
        )

    def promote(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        manifest: Manifest,
        publication: Publication | None = None,
    ) -> None:
        self._ask(
            calls.PROMOTE,
            application=application,
            job_id=job_id,
            output=output,
            manifest=manifest,
            publication=publication,
        )

    def promote_recovered(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        manifest: Manifest,
        publication: Publication,
    ) -> None:
        self._ask(
            calls.PROMOTE_RECOVERED,
            application=application,
            job_id=job_id,
            output=output,
            manifest=manifest,
            publication=publication,
        )

    def release_partitions(
        self, application: ApplicationID, job_id: JobID, ids: Collection[ResultPartitionID]
    ) -> None:
        partitions = [m.Partition(output=each.output, index=each.index) for each in ids]
        self._ask(calls.RELEASE_PARTITIONS, application=application, job_id=job_id, ids=partitions)

    def release_outputs(self, application: ApplicationID, outputs: Collection[OutputID]) -> None:
        self._ask(calls.RELEASE_OUTPUTS, application=application, outputs=list(outputs))

    def end_job(self, application: ApplicationID, job_id: JobID) -> None:
        self._ask(calls.END_JOB, application=application, job_id=job_id)

    def job_partitions(
        self, application: ApplicationID, job_id: JobID
    ) -> tuple[TaskExecutorPartitionInfo, ...]:
        answer = self._ask(calls.JOB_PARTITIONS, application=application, job_id=job_id)
        return tuple(each.info() for each in answer.partitions)

    def damage(self, application: ApplicationID, output: OutputID) -> str | None:
        return self._ask(calls.DAMAGE, application=application, output=output).damage

    def report(self, application: ApplicationID | None) -> tuple[DataSetReport, ...]:
        answer = self._ask(calls.REPORT, application=application)
        return tuple(each.report() for each in answer.datasets)

    def close(self) -> None:
        """Closes the connections to the executor; another call makes new ones."""
        self._pool.close()

    def _ask(
        self, call: ControlCall[Q, A], timeout: urllib3.Timeout | None = None, **asked: Any
    ) -> A:
        try:
            body = call.question(**asked).model_dump_json().encode()
        except ValidationError as error:
            raise MalformedRequestError(call.name, what_is_wrong(error)) from None
        except PydanticSerializationError as error:
            raise MalformedRequestError(call.name, str(error)) from None
        try:
            response = self._pool.urlopen(
                "POST",
                call.path,
                body=body,
                headers=self._headers,
                timeout=timeout or self._patient,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise TaskExecutorUnreachableError(self.address, str(error)) from error
        refused: HoldfastError | None = None
        try:
            if response.status == 200:
                return call.answer.model_validate_json(response.data)
            refused = restored(m.Refusal.model_validate_json(response.data))
        except ValidationError:
            pass
        raise refused or TaskExecutorUnreachableError(
            self.address,
            f"it answers {call.name} with status {response.status}, and not as a task executor of "
            "this version does",
        )

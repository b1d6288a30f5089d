"""The calls that a task executor takes over the network: one for each method of the gateway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from holdfast.taskexecutor import messages as m
from holdfast.taskexecutor.gateway import TaskExecutorGateway

Q = TypeVar("Q", bound=m.Message)
A = TypeVar("A", bound=m.Message)

CONTROL_PREFIX = "/control/v1/"


@dataclass(frozen=True, slots=True)
class ControlCall(Generic[Q, A]):
    """A call.

    Attributes:
        name: the method's name, and the end of the call's path.
        question: what it is asked with.
        answer: what it answers.
        carry_out: asks the executor itself.
    """

    name: str
    question: type[Q]
    answer: type[A]
    carry_out: Callable[[TaskExecutorGateway, Q], A]

    @property
    def path(self) -> str:
        """Where it is sent to."""
        return f"{CONTROL_PREFIX}{self.name}"


def _register_application(executor: TaskExecutorGateway, asked: m.Register) -> m.Registered:
    registration = executor.register_application(
        asked.application, asked.lease_seconds, asked.version
    )
    return m.Registered(registration=registration)


def _register_recovery(executor: TaskExecutorGateway, asked: m.RegisterRecovery) -> m.Registered:
    registration = executor.register_recovery(
        asked.application, asked.claim(), asked.lease_seconds, asked.version
    )
    return m.Registered(registration=registration)


def _recovered(executor: TaskExecutorGateway, asked: m.OfApplication) -> m.AllRecovered:
    outputs = executor.recovered(asked.application)
    return m.AllRecovered(outputs=tuple(m.Recovered.of(output) for output in outputs))


def _unregister_application(executor: TaskExecutorGateway, asked: m.OfApplication) -> m.Nothing:
    executor.unregister_application(asked.application)
    return m.Nothing()


def _register_job(executor: TaskExecutorGateway, asked: m.OfJob) -> m.Nothing:
    executor.register_job(asked.application, asked.job_id)
    return m.Nothing()


def _open_output(executor: TaskExecutorGateway, asked: m.Open) -> m.Directory:
    directory = executor.open_output(asked.application, asked.job_id, asked.output, asked.part)
    return m.Directory(directory=directory)


def _finish_output(executor: TaskExecutorGateway, asked: m.Finish) -> m.Kept:
    kept = executor.finish_output(
        asked.application, asked.job_id, asked.output, asked.indices, asked.number_of_partitions
    )
    return m.Kept(partitions=kept)


def _fail_output(executor: TaskExecutorGateway, asked: m.OfOutput) -> m.Nothing:
    executor.fail_output(asked.application, asked.job_id, asked.output)
    return m.Nothing()


def _link_output(executor: TaskExecutorGateway, asked: m.Link) -> m.Nothing:
    partitions = [each.id() for each in asked.partitions]
    executor.link_output(
        asked.application, asked.job_id, asked.output, asked.source_application, partitions
    )
    return m.Nothing()


def _promote(executor: TaskExecutorGateway, asked: m.Promote) -> m.Nothing:
    executor.promote(
        asked.application, asked.job_id, asked.output, asked.manifest, asked.publication
    )
    return m.Nothing()


def _promote_recovered(executor: TaskExecutorGateway, asked: m.PromoteRecovered) -> m.Nothing:
    executor.promote_recovered(
        asked.application, asked.job_id, asked.output, asked.manifest, asked.publication
    )
    return m.Nothing()


def _release_partitions(executor: TaskExecutorGateway, asked: m.ReleasePartitions) -> m.Nothing:
    executor.release_partitions(asked.application, asked.job_id, [each.id() for each in asked.ids])
    return m.Nothing()


def _release_outputs(executor: TaskExecutorGateway, asked: m.ReleaseOutputs) -> m.Nothing:
    executor.release_outputs(asked.application, asked.outputs)
    return m.Nothing()


def _end_job(executor: TaskExecutorGateway, asked: m.OfJob) -> m.Nothing:
    executor.end_job(asked.application, asked.job_id)
    return m.Nothing()


def _job_partitions(executor: TaskExecutorGateway, asked: m.OfJob) -> m.JobPartitions:
    infos = executor.job_partitions(asked.application, asked.job_id)
    return m.JobPartitions(partitions=tuple(m.PartitionInfo.of(info) for info in infos))


def _report(executor: TaskExecutorGateway, asked: m.Report) -> m.Reports:
    reports = executor.report(asked.application)
    return m.Reports(datasets=tuple(m.ReportedDataSet.of(report) for report in reports))


DESCRIBE = ControlCall(
    "describe",
    m.Nothing,
    m.Description,
    lambda executor, asked: m.Description(description=executor.describe()),
)
REGISTER_APPLICATION = ControlCall(
    "register_application", m.Register, m.Registered, _register_application
)
REGISTER_RECOVERY = ControlCall(
    "register_recovery", m.RegisterRecovery, m.Registered, _register_recovery
)
RECOVERED = ControlCall("recovered", m.OfApplication, m.AllRecovered, _recovered)
HEARTBEAT = ControlCall(
    "heartbeat",
    m.Heartbeat,
    m.Incarnation,
    lambda executor, asked: m.Incarnation(
        incarnation=executor.heartbeat(asked.application, asked.hits)
    ),
)
UNREGISTER_APPLICATION = ControlCall(
    "unregister_application", m.OfApplication, m.Nothing, _unregister_application
)
REGISTER_JOB = ControlCall("register_job", m.OfJob, m.Nothing, _register_job)
OPEN_OUTPUT = ControlCall("open_output", m.Open, m.Directory, _open_output)
FINISH_OUTPUT = ControlCall("finish_output", m.Finish, m.Kept, _finish_output)
FAIL_OUTPUT = ControlCall("fail_output", m.OfOutput, m.Nothing, _fail_output)
LINK_OUTPUT = ControlCall("link_output", m.Link, m.Nothing, _link_output)
PROMOTE = ControlCall("promote", m.Promote, m.Nothing, _promote)
PROMOTE_RECOVERED = ControlCall(
    "promote_recovered", m.PromoteRecovered, m.Nothing, _promote_recovered
)
RELEASE_PARTITIONS = ControlCall(
    "release_partitions", m.ReleasePartitions, m.Nothing, _release_partitions
)
RELEASE_OUTPUTS = ControlCall("release_outputs", m.ReleaseOutputs, m.Nothing, _release_outputs)
END_JOB = ControlCall("end_job", m.OfJob, m.Nothing, _end_job)
JOB_PARTITIONS = ControlCall("job_partitions", m.OfJob, m.JobPartitions, _job_partitions)
DAMAGE = ControlCall(
    "damage",
    m.Damage,
    m.FoundDamage,
    lambda executor, asked: m.FoundDamage(damage=executor.damage(asked.application, asked.output)),
)
REPORT = ControlCall("report", m.Report, m.Reports, _report)

ALL_CALLS = (
    DESCRIBE,
    REGISTER_APPLICATION,
    REGISTER_RECOVERY,
    RECOVERED,
    HEARTBEAT,
    UNREGISTER_APPLICATION,
    REGISTER_JOB,
    OPEN_OUTPUT,
    FINISH_OUTPUT,
    FAIL_OUTPUT,
    LINK_OUTPUT,
    PROMOTE,
    PROMOTE_RECOVERED,
    RELEASE_PARTITIONS,
    RELEASE_OUTPUTS,
    END_JOB,
    JOB_PARTITIONS,
    DAMAGE,
    REPORT,
)
"""Every call that there is."""

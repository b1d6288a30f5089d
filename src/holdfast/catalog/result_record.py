"""What lies beside a shared result's manifest, so that the catalog can be rebuilt from it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from holdfast.catalog.audience import Audience
from holdfast.catalog.cataloged_result import MadeFrom, ProducedResult, ProgramIdentity
from holdfast.ids import ApplicationID, IntermediateDataSetID
from holdfast.plan.file_version import FileVersion
from holdfast.storage.kept_dataset import KeptDataSet

RESULT_RECORD_NAME = "_result.json"


class ResultRecord(BaseModel):
    """What the manifest, which says what a result is, doesn't say: why it is kept.

    Attributes:
        version: of this record's form.
        environment: what the digests take for granted.
        digest: of the computation, without the settings it ran under.
        shape: of the computation, whatever versions its files have.
        audience: who may read it.
        lifetime: how long it stays after its last use, in seconds.
        seconds: how long it took to produce.
        cpu_seconds: of all its tasks; None where that isn't known.
        inputs: the ids of other results that were read on the way.
        files: the versions of the files that it was made from.
        settings: those of the session that count.
        user: who has kept it.
        group: whose files they are.
        host: on which machine.
        application: in which program.
        partitions: how many have a file, wherever they lie; None where that wasn't noted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    environment: str
    digest: str
    shape: str
    audience: Audience
    lifetime: float | None
    seconds: float
    cpu_seconds: float | None
    inputs: tuple[IntermediateDataSetID, ...]
    files: tuple[FileVersion, ...]
    settings: dict[str, str]
    user: str
    group: str
    host: str
    application: ApplicationID
    partitions: int | None = None

    @classmethod
    def of(
        cls, produced: ProducedResult, program: ProgramIdentity, environment: str
    ) -> ResultRecord:
        """The record of a result.

        Args:
            produced: the result.
            program: who has kept it.
            environment: what that program's digests take for granted.
        """
        return cls(
            environment=environment,
            digest=produced.digest,
            shape=produced.shape,
            audience=produced.audience,
            lifetime=produced.lifetime,
            seconds=produced.seconds,
            cpu_seconds=produced.cpu_seconds,
            inputs=produced.inputs,
            files=produced.made_from.files,
            settings=dict(produced.made_from.settings),
            user=program.user,
            group=program.groups[0] if program.groups else "",
            host=program.host,
            application=program.application,
            partitions=len(produced.kept.manifest.partitions),
        )

    def produced(self, kept: KeptDataSet) -> ProducedResult:
        """The result of the record.

        Args:
            kept: where it lies.
        """
        return ProducedResult(
            dataset_id=IntermediateDataSetID.from_digest(kept.manifest.dataset.dataset_id),
            digest=self.digest,
            shape=self.shape,
            kept=kept,
            is_shared=True,
            audience=self.audience,
            lifetime=self.lifetime,
            seconds=self.seconds,
            cpu_seconds=self.cpu_seconds,
            inputs=self.inputs,
            made_from=MadeFrom(self.files, self.settings),
        )

    def program(self) -> ProgramIdentity:
        """Who has kept it."""
        return ProgramIdentity(self.application, self.user, (self.group,), self.host, 0)

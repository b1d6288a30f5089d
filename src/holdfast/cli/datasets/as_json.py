"""The format of `--json`, which is stable: keys may be added, but never change their meaning.

Each command prints a list of objects. Numbers are plain, times are in ISO 8601, and null means
unknown. An object of `ls` has

    id                    `<dataset>-<attempt>`, which `show` and `rm` take
    dataset               64 digits, derived from the computation
    application           32 digits; the one that has kept it
    computes              a short description of the computation
    state                 complete, incomplete, damaged; or unclear: the missing partitions are
                          empty, or on task executors that did not respond
    damage                what is wrong with it
    partitions_found      how many partitions were found
    number_of_partitions  how many partitions the dataset has
    rows, bytes           of the partitions found
    ambiguous             whether it is one of several right answers
    created, age_seconds
    hits                  how many jobs of its program have read it
    user, host            who has kept it, and on which machine
    audience              who may read it: nobody (but its program), user, group, all
    seconds, cpu_seconds  how long it took to produce, and the CPU time of its tasks
    lifetime_seconds      how long it stays after its last use; null: as long as its program
    last_used             when a job read it last, or else when it was kept
    uses, saved_seconds   how often jobs of all programs have read it since, and what that has saved
                          them; of a program that runs, up to a few seconds ago
    reasons               why it is not read everywhere: objects of kind, where (USER, SESSION: by
                          its program, NODE: by the very table), text, sentence
    places                objects of host, executor (address), executor_id, directory, partitions,
                          bytes, damage

An object of `show` (also in a list) additionally has

    spark_version
    columns               objects of name, type, nullable
    sources               the files that it was made from: objects of path, bytes, modified
    partitions            objects of index, file, rows, bytes, modified, host, location

An object of `rm` has id, dataset, application, rows and bytes of what was released, and `released`,
which is a list of places.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from holdfast.cli.datasets.dataset_source import Released
from holdfast.cli.datasets.listed_dataset import Contents, ListedDataSet, PartitionsPlace
from holdfast.plan.reasons import Reason
from holdfast.storage.kept_dataset import KeptPartition
from holdfast.storage.partition_version import modified_ns


def listed(dataset: ListedDataSet, now: datetime) -> dict[str, Any]:
    """An object of `ls`."""
    created, sharing = dataset.created, dataset.sharing
    return {
        **_which(dataset),
        "computes": dataset.computes,
        "state": dataset.state.value,
        "damage": dataset.damage,
        "partitions_found": dataset.partitions_found,
        "number_of_partitions": dataset.number_of_partitions,
        "rows": dataset.rows,
        "bytes": dataset.bytes,
        "ambiguous": dataset.ambiguous,
        "created": None if created is None else created.isoformat(),
        "age_seconds": None if created is None else (now - created).total_seconds(),
        "hits": dataset.hits,
        "user": None if sharing is None else sharing.user,
        "host": None if sharing is None else sharing.host,
        "audience": None if sharing is None else sharing.audience.value,
        "seconds": None if sharing is None else sharing.seconds,
        "cpu_seconds": None if sharing is None else sharing.cpu_seconds,
        "lifetime_seconds": None if sharing is None else sharing.lifetime,
        "last_used": None if sharing is None else sharing.last_used.isoformat(),
        "uses": None if sharing is None else sharing.uses,
        "saved_seconds": None if sharing is None else sharing.saved_seconds,
        "reasons": None if sharing is None else [_reason(each) for each in sharing.reasons],
        "places": [_place(place) for place in dataset.places],
    }


def shown(dataset: ListedDataSet, contents: Contents | None, now: datetime) -> dict[str, Any]:
    """An object of `show`."""
    columns = sources = None
    if contents is not None and contents.sources is not None:
        sources = [
            {
                "path": file.path,
                "bytes": file.length,
                "modified": datetime.fromtimestamp(file.modified / 1000, timezone.utc).isoformat(),
            }
            for file in contents.sources
        ]
    if contents is not None:
        columns = [
            {"name": column.name, "type": column.type, "nullable": column.nullable}
            for column in contents.columns
        ]
    return {
        **listed(dataset, now),
        "spark_version": None if contents is None else contents.spark_version,
        "columns": columns,
        "sources": sources,
        "partitions": [_partition(*each) for each in dataset.partitions],
    }


def released(dataset: ListedDataSet, outcome: Released) -> dict[str, Any]:
    """An object of `rm`."""
    gone = [partition for place in outcome.places for partition in place.partitions]
    return {
        **_which(dataset),
        "rows": sum(partition.rows for partition in gone),
        "bytes": sum(partition.bytes for partition in gone),
        "released": [_place(place) for place in outcome.places],
    }


def _which(dataset: ListedDataSet) -> dict[str, Any]:
    return {
        "id": dataset.output.name,
        "dataset": dataset.output.dataset_id.hex,
        "application": None if dataset.application is None else dataset.application.hex,
    }


def _reason(reason: Reason) -> dict[str, str]:
    return {
        "kind": reason.kind,
        "where": reason.where.name,
        "text": reason.text,
        "sentence": reason.sentence,
    }


def _place(place: PartitionsPlace) -> dict[str, Any]:
    return {
        "host": place.host,
        "executor": place.address,
        "executor_id": place.executor_id,
        "directory": place.directory,
        "partitions": len(place.partitions),
        "bytes": sum(partition.bytes for partition in place.partitions),
        "damage": place.damage,
    }


def _partition(partition: KeptPartition, place: PartitionsPlace) -> dict[str, Any]:
    return {
        "index": partition.index,
        "file": partition.file,
        "rows": partition.rows,
        "bytes": partition.bytes,
        "modified": _time(modified_ns(partition.version)),
        "host": place.host,
        "location": f"{place.directory}/{partition.file}",
    }


def _time(nanoseconds: int | None) -> str | None:
    if nanoseconds is None:
        return None
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, timezone.utc).isoformat(
            timespec="milliseconds"
        )
    except (OverflowError, ValueError, OSError):
        return None

"""What the parts of a plan compute, whatever versions their files have."""

from __future__ import annotations

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import OperatorDocument
from holdfast.plan.file_sources import FileListing, with_listings
from holdfast.plan.without_literals import without_value
from holdfast.spark.catalyst_bridge import CatalystBridge, Query


def shapes(bridge: CatalystBridge, query: Query) -> dict[int, str]:
    """For the handle of each node of a query a digest in which files count by their paths.

    Args:
        bridge: reads the plans of the session.
        query: over the analyzed plan.
    """
    return {node.handle: node.digest for node in shape(bridge, query).walk()}


def shape(bridge: CatalystBridge, query: Query) -> CanonicalNode:
    """The canonical plan of a query in which files count by their paths.

    Args:
        bridge: reads the plans of the session.
        query: over the analyzed plan.
    """
    return bridge.canonical(query.reading, without_versions(query.reading.operators))


def template(bridge: CatalystBridge, query: Query) -> CanonicalNode:
    """The canonical plan of a query in which files count by their paths, and literals by types.

    Args:
        bridge: reads the plans of the session.
        query: over the analyzed plan.
    """
    operators = with_listings(query.reading.operators, _asked_for, without_value)
    return bridge.canonical(query.reading, operators)


def without_versions(operators: list[OperatorDocument]) -> list[OperatorDocument]:
    """A plan's operators with the paths that were asked for in the place of what was found."""
    return with_listings(operators, _asked_for)


def _asked_for(handle: int, listing: FileListing) -> FileListing:
    roots = sorted(listing["roots"])
    return {**listing, "files": [], "partitions": "\n".join(["paths", *roots])}

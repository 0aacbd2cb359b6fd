"""Planning by Spark's workers: each prunes some of the manifests. The driver puts the parts together in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esker.model.predicates.predicate import Bound
from esker.model.schema import Schema
from esker.ports.engine import SparkFrames
from esker.ports.table_format import SpreadFormat, TableFormat
from esker.read.prune_manifest import NO_FACTS, FileFacts, PrunedManifests, Pruning, columns_of, prune_manifests
from esker.read.prune_manifest_list import PrunedList
from esker.tree.table_metadata import TableMetadata, without_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODE = "read.data-planning-mode"
"""The table property of Iceberg's Java library. Its value ``distributed`` asks for the workers."""
MANIFESTS_IN_A_PART = 64


def asks_for_workers(metadata: TableMetadata) -> bool:
    """Whether the table's properties ask for planning by workers."""
    return metadata.properties.get(MODE, "").lower() == "distributed"


@dataclass(frozen=True, slots=True)
class PlanWorkers:
    """Spark's workers, for planning. ``session`` is None for the lake's session."""

    frames: SparkFrames
    session: SparkSession | None = None

    def prune(
        self,
        metadata: TableMetadata,
        table_format: TableFormat,
        schema: Schema,
        listed: PrunedList,
        predicate: Bound,
        facts: FileFacts = NO_FACTS,
    ) -> PrunedManifests:
        """The same result as ``prune_manifests``. A table that workers cannot reach, and one with few manifests, is
        planned here."""
        reachable = table_format.for_workers() if isinstance(table_format, SpreadFormat) else None
        if reachable is None or len(listed.data) <= MANIFESTS_IN_A_PART:
            return prune_manifests(metadata, table_format, schema, listed, predicate, facts)
        columns = columns_of(metadata, schema, listed, predicate, facts)
        work = Pruning(without_history(metadata), reachable, schema, predicate, facts, columns)
        starts = range(0, len(listed.data), MANIFESTS_IN_A_PART)
        parts = [listed.data[start : start + MANIFESTS_IN_A_PART] for start in starts]
        found = PrunedManifests()
        for part in self.frames.spread(work, parts, self.session):
            found.kept += part.kept
            found.live_files += part.live_files
            found.rejections += part.rejections
        return found

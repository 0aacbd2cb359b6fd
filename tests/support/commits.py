"""A table in a memory catalog, and the ways tests commit to it: data files are named, never written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from esker.catalogs.memory import memory_catalog
from esker.iceberg.format import IcebergFormat
from esker.iceberg.format_writer import IcebergFormatWriter
from esker.model.predicates.predicate import TRUE
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, Swap, TableState
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import DataFile, Metrics
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.build_snapshot import SnapshotChange
from esker.write.commit import commit
from esker.write.context import MetadataNames, Scratch, Tools
from esker.write.definition.alter import Alteration
from esker.write.definition.new_table import define_table
from esker.write.steps import AddFiles, RemoveRows
from esker.write.table_changes import MAIN

NAME = TableName(("db",), "t")


@dataclass
class Racing:
    """A catalog in which others commit just before the next swaps of ours."""

    inner: Catalog
    rivals: list[Callable[[], object]] = field(default_factory=list)

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        if self.rivals:
            self.rivals.pop(0)()
        return self.inner.swap(name, base, new)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class CommittedTable:
    """One table, its catalog, and what to change it with."""

    def __init__(self, schema: str = "id bigint not null, region string, ts timestamp", **more: Any) -> None:
        self.catalog = Racing(memory_catalog())
        self.catalog.create_namespace(NAME.namespace, {})
        metadata = define_table(schema=schema, location=self.catalog.location_for(NAME), **more)
        self.state = self.catalog.create(NAME, metadata)
        storage = self.catalog.storage()
        reader = IcebergFormat(storage)
        self.tools = Tools(
            format=reader,
            manifests=IcebergFormatWriter(storage, reader),
            engine=cast(Any, None),
            writer=cast(Any, None),
            deletes=cast(Any, None),
            rows=cast(Any, None),
            rewriter=cast(Any, None),
            statistics=cast(Any, None),
            lister=cast(Any, None),
            storage=storage,
        )

    @property
    def metadata(self) -> TableMetadata:
        """The newest version."""
        return self.load().metadata

    def load(self) -> TableState:
        """The newest version, from the catalog's own files."""
        return self.catalog.load(NAME)

    def alter(self, base: TableState | None = None) -> Alteration:
        """An alteration of the table as it is, or as it was."""
        return Alteration(
            catalog=cast(Catalog, self.catalog), name=NAME, base=base or self.load(), done=lambda state: None
        )

    def append(self, *names: str, ref: str = MAIN, stage: bool = False, **extra: str) -> Snapshot:
        """A snapshot that adds files of ten rows."""
        metadata = self.metadata
        files = tuple(
            DataFile(
                path=f"{metadata.location}/data/{name}.parquet",
                file_format="parquet",
                record_count=10,
                file_size=100,
                spec_id=metadata.default_spec_id,
                partition=(None,) * len(metadata.spec.fields),
                metrics=Metrics(value_counts={1: 10}),
            )
            for name in names
        )
        return self._commit(AddFiles(files), ref=ref, stage=stage, operation="append", extra=extra)

    def delete_all(self, ref: str = MAIN) -> Snapshot:
        """A snapshot that removes every file."""
        return self._commit(RemoveRows(TRUE), ref=ref)

    def paths(self, snapshot_id: int | None = None) -> list[str]:
        """Names of the live files of a snapshot, the current one by default."""
        metadata = self.metadata
        snapshot = metadata.current_snapshot if snapshot_id is None else metadata.snapshot(snapshot_id)
        if snapshot is None:
            return []
        manifests = self.tools.format.manifests(metadata, snapshot)
        found: list[str] = []
        for entries in self.tools.format.entries(metadata, manifests, EntryColumns()):
            found += entries.take(entries.is_live).path.to_pylist()
        return sorted(path.rsplit("/", 1)[1].removesuffix(".parquet") for path in found)

    def _commit(self, step: AddFiles | RemoveRows, **more: Any) -> Snapshot:
        change = SnapshotChange(
            tools=self.tools,
            steps=(step,),
            scratch=Scratch(self.tools.storage),
            names=MetadataNames(),
            start=self.metadata.current_snapshot,
            **more,
        )
        commit(cast(Catalog, self.catalog), NAME, self.load(), change)
        assert change.snapshot is not None
        return change.snapshot

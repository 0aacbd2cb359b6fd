"""Delete files committed by hand, as other engines write them: Esker's own verbs rewrite files instead."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from esker.arrow.arrow_types import FIELD_ID
from esker.iceberg.deletion_vector import deletion_vector_blob
from esker.iceberg.puffin import encode_puffin
from esker.table import Table
from esker.tree.data_file import DataFile, FileContent
from esker.write.build_snapshot import SnapshotChange
from esker.write.commit import commit
from esker.write.context import MetadataNames, Scratch
from esker.write.steps import AddFiles


def _id(name: str, type_: pa.DataType, id_: int) -> pa.Field:
    return pa.field(name, type_, metadata={FIELD_ID: str(id_).encode()})


def _store(table: Table, name: str, data: bytes) -> str:
    location = f"{table.location}/data/{name}"
    table._workings.storage.write_new(location, data)
    return location


def _parquet(data: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(data, out)
    return out.getvalue()


def position_delete(table: Table, target: DataFile, positions: Sequence[int], *, named: bool = False) -> DataFile:
    """A position delete file for one data file; ``named`` sets ``referenced_data_file``."""
    schema = pa.schema([_id("file_path", pa.string(), 2147483546), _id("pos", pa.int64(), 2147483545)])
    content = _parquet(pa.table([[target.path] * len(positions), list(positions)], schema=schema))
    location = _store(table, f"pd-{uuid4()}.parquet", content)
    return DataFile(
        path=location,
        file_format="parquet",
        content=FileContent.POSITION_DELETES,
        record_count=len(positions),
        file_size=len(content),
        spec_id=target.spec_id,
        partition=target.partition,
        referenced_data_file=target.path if named else None,
    )


def equality_delete(table: Table, ids: Sequence[int], like: DataFile) -> DataFile:
    """An equality delete on the column ``id``, in the partition of a data file."""
    field = table.schema.find("id")
    content = _parquet(pa.table([pa.array(ids, pa.int64())], schema=pa.schema([_id("id", pa.int64(), field.id)])))
    return DataFile(
        path=_store(table, f"ed-{uuid4()}.parquet", content),
        file_format="parquet",
        content=FileContent.EQUALITY_DELETES,
        record_count=len(ids),
        file_size=len(content),
        spec_id=like.spec_id,
        partition=like.partition,
        equality_ids=(field.id,),
    )


def deletion_vectors(table: Table, wanted: Sequence[tuple[DataFile, Sequence[int]]]) -> tuple[DataFile, ...]:
    """Deletion vectors for some data files, all in one Puffin file."""
    blobs = [deletion_vector_blob(positions, data_file=target.path) for target, positions in wanted]
    content, footer = encode_puffin(blobs)
    location = _store(table, f"dv-{uuid4()}.puffin", content)
    return tuple(
        DataFile(
            path=location,
            file_format="puffin",
            content=FileContent.POSITION_DELETES,
            record_count=len(positions),
            file_size=len(content),
            spec_id=target.spec_id,
            partition=target.partition,
            referenced_data_file=target.path,
            content_offset=blob.offset,
            content_size=blob.length,
        )
        for (target, positions), blob in zip(wanted, footer.blobs, strict=True)
    )


def commit_deletes(table: Table, *deletes: DataFile) -> None:
    """A snapshot that adds these delete files."""
    home = table._home
    assert home is not None
    change = SnapshotChange(
        tools=home.tools,
        steps=(AddFiles(tuple(replace(d, sequence_number=0) for d in deletes)),),
        scratch=Scratch(home.tools.storage),
        names=MetadataNames(),
        start=table.current_snapshot,
        operation="delete",
    )
    table._move_to(commit(home.catalog, home.name, home.catalog.load(home.name), change))

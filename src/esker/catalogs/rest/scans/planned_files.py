"""The files in a plan of a server. Every answer is checked as a whole: a plan with one wrong file is no plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from esker.errors import Corrupt
from esker.iceberg.metadata.single_values import decode_single_value
from esker.model.partition_and_sort import PartitionSpec, partition_value_type
from esker.ports.scan_service import PlannedFile
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata

_CONTENTS = {"data": FileContent.DATA, "position-deletes": FileContent.POSITION_DELETES}
_CONTENTS |= {"equality-deletes": FileContent.EQUALITY_DELETES}
_FORMATS = ("parquet", "orc", "avro", "puffin")


class FileDocument(msgspec.Struct, rename="kebab", frozen=True):
    """A data file or delete file, as the protocol writes it. Statistics are left out: servers differ in how they write
    them."""

    content: str
    file_path: str
    file_format: str
    spec_id: int
    file_size_in_bytes: int
    record_count: int
    partition: list[Any] | dict[str, Any] | None = None
    key_metadata: str | None = None
    split_offsets: list[int] | None = None
    equality_ids: list[int] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None


class TaskDocument(msgspec.Struct, rename="kebab", frozen=True):
    """A file to read, and the numbers of its deletes in the list of the same answer."""

    data_file: FileDocument
    delete_file_references: list[int] | None = None


class TasksDocument(msgspec.Struct, rename="kebab", frozen=True):
    """An answer with tasks. ``status``, ``plan-id`` and credentials are in the answers about a plan."""

    status: str | None = None
    plan_id: str | None = None
    plan_tasks: list[str] | None = None
    file_scan_tasks: list[TaskDocument] | None = None
    delete_files: list[FileDocument] | None = None
    storage_credentials: msgspec.Raw = msgspec.Raw(b"null")
    error: dict[str, Any] | None = None


def tasks_in(body: bytes, source: str) -> TasksDocument:
    """The answer. Raises ``Corrupt`` if it is not as the protocol has it."""
    try:
        return msgspec.json.decode(body, type=TasksDocument)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Corrupt(source, f"the plan cannot be read: {error}") from None


def planned_files(document: TasksDocument, metadata: TableMetadata, source: str) -> list[PlannedFile]:
    """The files of one answer with their deletes. Raises ``Corrupt`` for a reference to a delete that is not listed."""
    deletes = [_file(one, metadata, source) for one in document.delete_files or ()]
    for one in deletes:
        if one.content is FileContent.DATA:
            raise Corrupt(source, f"the plan lists {one.path}, a data file, among the deletes")
    found = []
    for task in document.file_scan_tasks or ():
        data = _file(task.data_file, metadata, source)
        if data.content is not FileContent.DATA:
            raise Corrupt(source, f"the plan lists {data.path}, a delete file, among the data")
        found.append(PlannedFile(data_file=data, deletes=_referenced(task, deletes, source)))
    return found


def _referenced(task: TaskDocument, deletes: Sequence[DataFile], source: str) -> tuple[DataFile, ...]:
    """The deletes of a task, position deletes first. A deletion vector replaces the position deletes of its file."""
    found: list[DataFile] = []
    for number in task.delete_file_references or ():
        if not 0 <= number < len(deletes):
            path = task.data_file.file_path
            raise Corrupt(
                source, f"the plan refers to delete {number} of {path}, but lists only {len(deletes)} deletes"
            )
        found.append(deletes[number])
    vectors = [one for one in found if one.is_deletion_vector]
    positions = [one for one in found if one.content is FileContent.POSITION_DELETES and not one.is_deletion_vector]
    if len(vectors) > 1:
        raise Corrupt(source, f"the plan gives {task.data_file.file_path} {len(vectors)} deletion vectors")
    equalities = [one for one in found if one.content is FileContent.EQUALITY_DELETES]
    return (*(vectors or positions), *equalities)


def _file(document: FileDocument, metadata: TableMetadata, source: str) -> DataFile:
    path = document.file_path
    content = _CONTENTS.get(document.content.lower().replace("_", "-"))
    format_ = document.file_format.lower()
    spec = metadata.spec_by_id.get(document.spec_id)
    if content is None or format_ not in _FORMATS:
        raise Corrupt(source, f"the plan lists {path} as {document.content} in {document.file_format}: unknown")
    if spec is None:
        raise Corrupt(source, f"the plan lists {path} under partition spec {document.spec_id}, which the table lacks")
    if document.record_count < 0 or document.file_size_in_bytes < 0:
        raise Corrupt(source, f"the plan lists {path} with a negative size")
    if content is FileContent.EQUALITY_DELETES and not document.equality_ids:
        raise Corrupt(source, f"the plan lists {path}, an equality delete, without its columns")
    if format_ == "puffin" and (document.content_offset is None or document.content_size_in_bytes is None):
        raise Corrupt(source, f"the plan lists {path}, a deletion vector, without its place in the file")
    return DataFile(
        path=path,
        file_format=format_,
        record_count=document.record_count,
        file_size=document.file_size_in_bytes,
        content=content,
        spec_id=document.spec_id,
        partition=_partition(document, spec, metadata, source),
        key_metadata=_key(document, source),
        split_offsets=tuple(document.split_offsets or ()),
        equality_ids=tuple(document.equality_ids or ()),
        sort_order_id=document.sort_order_id,
        first_row_id=document.first_row_id,
        referenced_data_file=document.referenced_data_file,
        content_offset=document.content_offset,
        content_size=document.content_size_in_bytes,
    )


def _key(document: FileDocument, source: str) -> bytes | None:
    try:
        return None if document.key_metadata is None else bytes.fromhex(document.key_metadata)
    except ValueError:
        raise Corrupt(source, f"the plan lists {document.file_path} with key metadata that is no hex") from None


def _partition(document: FileDocument, spec: PartitionSpec, metadata: TableMetadata, source: str) -> tuple[Any, ...]:
    """The partition values: an array in the order of the spec, or an object by field id without its nulls."""
    given = document.partition if document.partition is not None else []
    if isinstance(given, dict):
        known = {str(field.field_id) for field in spec.fields}
        values = [given.get(str(field.field_id)) for field in spec.fields] if given.keys() <= known else None
    else:
        values = given if len(given) == len(spec.fields) else None
    try:
        if values is None:
            raise ValueError(f"the spec has {len(spec.fields)} fields")
        types = [partition_value_type(field, metadata.any_field_by_id) for field in spec.fields]
        return tuple(decode_single_value(type_, value) for type_, value in zip(types, values, strict=True))
    except ValueError as error:
        raise Corrupt(source, f"the plan lists {document.file_path} with a wrong partition: {error}") from None

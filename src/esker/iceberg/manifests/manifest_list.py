"""Manifest lists to and from Avro: the record of a manifest (T1) as a table, its reader and its writer.

Fields are found by id, and by name only if the writer wrote no ids (A7). Fields that v1 did not have are optional (A8):
no content means data, no sequence number means 0 (B4), no count means "perhaps some" (C1). The header is not used: many
writers leave it empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from typing import Any, TypeVar

import pyarrow as pa

from esker import avro
from esker.errors import Corrupt, InvalidInput, Unsupported
from esker.iceberg.manifests.avro_fields import (
    NEVER,
    Column,
    FoundColumns,
    avro_field,
    ids_by_name,
    list_of,
    optional,
    record,
)
from esker.tree.manifest_list import FieldSummary, ManifestContent, ManifestFile

T = TypeVar("T")
SUMMARY = record(
    "r508",
    [
        {"name": "contains_null", "type": "boolean", "field-id": 509},
        {"name": "contains_nan", "type": optional("boolean"), "default": None, "field-id": 518},
        {"name": "lower_bound", "type": optional("bytes"), "default": None, "field-id": 510},
        {"name": "upper_bound", "type": optional("bytes"), "default": None, "field-id": 511},
    ],
)

# fmt: off
COLUMNS = (
    #      id   name on the wire        avro                   attribute              since required since
    Column(500, "manifest_path",        "string",              "path"),
    Column(501, "manifest_length",      "long",                "length"),
    Column(502, "partition_spec_id",    "int",                 "spec_id"),
    Column(517, "content",              "int",                 "content",             2, 2),
    Column(515, "sequence_number",      "long",                "sequence_number",     2, 2),
    Column(516, "min_sequence_number",  "long",                "min_sequence_number", 2, 2),
    Column(503, "added_snapshot_id",    "long",                "added_snapshot_id"),
    Column(504, "added_files_count",    "int",                 "added_files",         1, 2),
    Column(505, "existing_files_count", "int",                 "existing_files",      1, 2),
    Column(506, "deleted_files_count",  "int",                 "deleted_files",       1, 2),
    Column(512, "added_rows_count",     "long",                "added_rows",          1, 2),
    Column(513, "existing_rows_count",  "long",                "existing_rows",       1, 2),
    Column(514, "deleted_rows_count",   "long",                "deleted_rows",        1, 2),
    Column(507, "partitions",           list_of(508, SUMMARY), "partitions",          1, NEVER),
    Column(519, "key_metadata",         "bytes",               "key_metadata",        1, NEVER),
    Column(520, "first_row_id",         "long",                "first_row_id",        3, NEVER),
)
# fmt: on

OLD_NAMES = {"added_data_files_count": 504, "existing_data_files_count": 505, "deleted_data_files_count": 506}
_NAMES = {**OLD_NAMES, **ids_by_name(COLUMNS)}
_SUMMARY_NAMES = {field["name"]: field["field-id"] for field in SUMMARY["fields"]}
_WANT = avro.Projection.of([column.id for column in COLUMNS], names=_NAMES)
_ARROW = {"string": pa.string(), "int": pa.int64(), "long": pa.int64(), "bytes": pa.binary()}
# A hundred thousand manifests need some 20 MB. Much more is not a manifest list.
_LIMITS = avro.Limits(container=512 << 20)
_ENCRYPTED_STREAM = b"AGS1"


def decode_manifest_list(file: str, data: bytes) -> tuple[ManifestFile, ...]:
    """The rows of a manifest list of any format version, in order."""
    refuse_encrypted(file, data)
    found = FoundColumns(file, avro.decode(data, file=file, want=_WANT, limits=_LIMITS).batch, _NAMES)
    plain = {
        column.attribute: found.nullable(column.id, _ARROW[str(column.avro)]).to_pylist()
        for column in COLUMNS
        if isinstance(column.avro, str)
    }
    return tuple(_without_repeats(file, _manifest_files(file, plain, _summaries(found))))


def refuse_encrypted(file: str, data: bytes) -> None:
    """Raise `Unsupported` if the file is an Iceberg encrypted stream, which has its own magic bytes."""
    if data[:4] == _ENCRYPTED_STREAM:
        raise Unsupported(f"cannot read {file}: it is encrypted", feature="table encryption", file=file)


def _manifest_files(
    file: str, plain: dict[str, list[Any]], partitions: list[tuple[FieldSummary, ...] | None]
) -> list[ManifestFile]:
    """The rows, of columns by attribute. Raises `Corrupt` if a row makes no sense."""
    _refuse_senseless(file, plain)
    columns = {
        **plain,
        "length": _or_zero(plain["length"]),
        "content": [_CONTENTS[number] for number in plain["content"]],
        "sequence_number": _or_zero(plain["sequence_number"]),
        "min_sequence_number": [max(number, 0) for number in _or_zero(plain["min_sequence_number"])],
        # A negative count is unknown: the writer did not count.
        **{name: [None if n is None or n < 0 else n for n in plain[name]] for name in _COUNTS},
        "partitions": partitions,
        "key_metadata": [key or None for key in plain["key_metadata"]],
    }
    return _built(ManifestFile, columns)


_CONTENTS: dict[int | None, ManifestContent] = {
    None: ManifestContent.DATA,
    **{content.value: content for content in ManifestContent},
}
_COUNTS = ("added_files", "existing_files", "deleted_files", "added_rows", "existing_rows", "deleted_rows")


def _refuse_senseless(file: str, plain: dict[str, list[Any]]) -> None:
    """Raise `Corrupt` for the first row without a path or spec, with a negative number or with an unknown content."""
    checked = ("path", "spec_id", "sequence_number", "first_row_id", "content")
    for number, (path, spec_id, sequence, first_row_id, content) in enumerate(
        zip(*(plain[name] for name in checked), strict=True)
    ):
        if path and spec_id is not None and (sequence or 0) >= 0 <= (first_row_id or 0) and content in _CONTENTS:
            continue
        if not path:
            raise Corrupt(file, f"row {number} names no manifest")
        if spec_id is None:
            raise Corrupt(file, f"row {number} ({path}) has no partition_spec_id")
        for name, value in (("sequence_number", sequence), ("first_row_id", first_row_id)):
            if (value or 0) < 0:
                raise Corrupt(file, f"row {number} ({path}) has a {name} of {value}")
        raise Corrupt(file, f"row {number} ({path}) has an unknown content of {content}")


def _built(kind: type[T], columns: Mapping[str, list[Any]]) -> list[T]:
    """Objects of a frozen dataclass with slots, of one column for each of its fields.

    Its own ``__init__`` goes through ``object.__setattr__`` for each field, which takes five times as long.
    """
    [length] = {len(column) for column in columns.values()}
    if columns.keys() != set(kind.__dataclass_fields__):  # type: ignore[attr-defined]
        raise TypeError(f"the fields of {kind.__name__} are not {', '.join(columns)}")
    made = list(map(kind.__new__, repeat(kind, length)))
    for name, column in columns.items():
        deque(map(getattr(kind, name).__set__, made, column), maxlen=0)
    return made


def _or_zero(column: list[int | None]) -> list[int]:
    return [value or 0 for value in column]


def _summaries(found: FoundColumns) -> list[tuple[FieldSummary, ...] | None]:
    lists = found.raw(507)
    if lists is None or lists.null_count == len(lists):
        return [None] * found.rows
    if not pa.types.is_list(lists.type) or not pa.types.is_struct(lists.type.value_type):
        raise Corrupt(found.file, f"field 507 (partitions) is {lists.type} where a list of records belongs")
    inner = FoundColumns(found.file, lists.values, _SUMMARY_NAMES)
    every = _built(
        FieldSummary,
        {
            # not recorded as free of nulls: perhaps some
            "contains_null": [null is not False for null in inner.nullable(509, pa.bool_()).to_pylist()],
            "contains_nan": inner.nullable(518, pa.bool_()).to_pylist(),
            "lower_bound": inner.nullable(510, pa.binary()).to_pylist(),
            "upper_bound": inner.nullable(511, pa.binary()).to_pylist(),
        },
    )
    offsets = lists.offsets.to_pylist()
    if not lists.null_count:
        return [tuple(every[start:end]) for start, end in pairwise(offsets)]
    return [
        tuple(every[start:end]) if valid else None
        for start, end, valid in zip(offsets, offsets[1:], lists.is_valid().to_pylist(), strict=False)
    ]


def _without_repeats(file: str, manifests: Iterable[ManifestFile]) -> Iterator[ManifestFile]:
    """Each manifest once. After a retried commit, one writer lists some twice, and their rows must not count twice."""
    seen: dict[str, ManifestFile] = {}
    for manifest in manifests:
        if manifest.path not in seen:
            seen[manifest.path] = manifest
            yield manifest
        elif manifest != seen[manifest.path]:
            raise Corrupt(file, f"it lists {manifest.path} twice, with different values")


# ---------------------------------------------------------------- Writing


@dataclass(frozen=True, slots=True, kw_only=True)
class ListForm:
    """What a list records about its snapshot, and its format version (A6)."""

    snapshot_id: int
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    format_version: int = 2
    first_row_id: int | None = None

    @property
    def header(self) -> dict[str, str]:
        """The header that Java and PyIceberg write."""
        header = {
            "snapshot-id": str(self.snapshot_id),
            "parent-snapshot-id": "null" if self.parent_snapshot_id is None else str(self.parent_snapshot_id),
            "format-version": str(self.format_version),
        }
        if self.format_version > 1:
            header["sequence-number"] = str(self.sequence_number)
        if self.format_version > 2:
            header["first-row-id"] = "null" if self.first_row_id is None else str(self.first_row_id)
        return header

    @property
    def columns(self) -> list[Column]:
        """The columns of the version."""
        return [column for column in COLUMNS if column.is_written_in(self.format_version)]

    @property
    def schema(self) -> dict[str, Any]:
        """The Avro schema of a row."""
        return record("manifest_file", [avro_field(column, self.format_version) for column in self.columns])

    def rows(self, manifests: Iterable[ManifestFile]) -> Iterator[dict[str, Any]]:
        """Manifests as records."""
        for manifest in manifests:
            row = {column.name: _stored(manifest, column.attribute) for column in self.columns}
            yield _checked(row, manifest, self.format_version)


def encode_manifest_list(manifests: Iterable[ManifestFile], *, codec: str = "deflate", **form_of: Any) -> bytes:
    """The list as an Avro container. The other keywords are those of ``ListForm``."""
    form = ListForm(**form_of)
    return avro.write(form.schema, form.rows(manifests), metadata=form.header, codec=codec)


def extend_manifest_list(
    file: str, parent: bytes, new: Iterable[ManifestFile], form: ListForm
) -> avro.Prepended | None:
    """The new manifests, then those of the parent's list, which are copied without decoding.

    Returns None if the parent's list has another version or writer.
    """
    return avro.prepend(parent, file=file, schema=form.schema, records=form.rows(new), metadata=form.header)


def assign_first_row_ids(manifests: Sequence[ManifestFile], next_row_id: int) -> tuple[tuple[ManifestFile, ...], int]:
    """Assign row ids to data manifests that have none (I2). Returns the manifests and the table's next row id (I3).

    Each data manifest gets as many ids as it has live rows, including existing ones. Delete manifests get none.
    """
    assigned = []
    for manifest in manifests:
        if manifest.content is ManifestContent.DATA and manifest.first_row_id is None:
            if manifest.added_rows is None or manifest.existing_rows is None:
                raise InvalidInput(f"cannot assign row ids: {manifest.path} does not record how many rows it has")
            assigned.append(replace(manifest, first_row_id=next_row_id))
            next_row_id += manifest.added_rows + manifest.existing_rows
        else:
            assigned.append(manifest)
    return tuple(assigned), next_row_id


def _stored(manifest: ManifestFile, attribute: str) -> Any:
    value = getattr(manifest, attribute)
    if attribute == "partitions" and value is not None:
        return [_summary(summary) for summary in value]
    return int(value) if isinstance(value, ManifestContent) else value


def _summary(summary: FieldSummary) -> dict[str, Any]:
    return {
        "contains_null": summary.contains_null,
        "contains_nan": summary.contains_nan,
        "lower_bound": summary.lower_bound,
        "upper_bound": summary.upper_bound,
    }


def _checked(row: dict[str, Any], manifest: ManifestFile, format_version: int) -> dict[str, Any]:
    """A row that the version can write: v2 requires counts that v1 may omit. Raises `InvalidInput`."""
    if format_version == 1 and manifest.content is ManifestContent.DELETES:
        raise InvalidInput(f"cannot list {manifest.path} in format version 1: it has deletes, which came with 2")
    missing = [c.name for c in COLUMNS if c.name in row and row[c.name] is None and format_version >= c.required_since]
    if missing:
        raise InvalidInput(
            f"cannot list {manifest.path} in format version {format_version}: {', '.join(missing)} is not known"
        )
    return row

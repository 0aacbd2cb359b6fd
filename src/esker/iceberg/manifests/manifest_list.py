"""Manifest lists to and from Avro: the record of a manifest (T1) as a table, its reader and its writer.

Fields are found by id, and by name only if the writer wrote no ids (A7). Fields that v1 did not have are optional (A8):
no content means data, no sequence number means 0 (B4), no count means "perhaps some" (C1). The header is not used: many
writers leave it empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
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
from esker.model.arrow_arrays import arrow_array, flags_of, null_mask, numbers_of
from esker.tree.manifest_list import (
    MOST_FILES,
    FieldSummary,
    ListColumns,
    ManifestContent,
    ManifestFile,
    ManifestList,
)

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


def decode_manifest_list(file: str, data: bytes) -> Sequence[ManifestFile]:
    """The rows of a manifest list of any format version, in order, each once. Raises `Corrupt` if a row makes no
    sense."""
    refuse_encrypted(file, data)
    found = FoundColumns(file, avro.decode(data, file=file, want=_WANT, limits=_LIMITS).batch, _NAMES)
    plain = {
        column.attribute: found.nullable(column.id, _ARROW[str(column.avro)])
        for column in COLUMNS
        if isinstance(column.avro, str)
    }
    rows = _Rows(plain, *_summaries(found))
    paths = plain["path"].to_pylist()
    _refuse_senseless(file, paths, plain)
    if len(set(paths)) < len(paths):
        return tuple(_without_repeats(file, rows.manifests(range(len(paths)))))
    return ManifestList(rows.columns(), rows.manifests)


def refuse_encrypted(file: str, data: bytes) -> None:
    """Raise `Unsupported` if the file is an Iceberg encrypted stream, which has its own magic bytes."""
    if data[:4] == _ENCRYPTED_STREAM:
        raise Unsupported(f"cannot read {file}: it is encrypted", feature="table encryption", file=file)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The decoded columns by attribute, and the summaries of each row."""

    plain: Mapping[str, pa.Array]
    places: pa.ListArray | None  # of the summaries of each row; None: no row has any
    summaries: Mapping[str, pa.Array]  # by attribute of a summary, those of all rows one after the other

    def columns(self) -> ListColumns:
        """What decides whether the manifests are read."""
        added, existing = (numbers_of(self.plain[name], null=-1) for name in ("added_files", "existing_files"))
        known = (added >= 0) & (existing >= 0)
        ends = np.zeros(len(added) + 1, np.int64) if self.places is None else numbers_of(self.places.offsets, null=0)
        missing = np.ones(len(added), bool) if self.places is None else null_mask(self.places)
        return ListColumns(
            spec_id=numbers_of(self.plain["spec_id"], null=0),
            is_data=numbers_of(self.plain["content"], null=0) == ManifestContent.DATA,
            may_hold_live_files=(added != 0) | (existing != 0),
            live_files=np.where(known, np.minimum(added, MOST_FILES) + np.minimum(existing, MOST_FILES), -1),
            summaries=np.where(missing, -1, np.diff(ends)),
            first_summary=ends[:-1].astype(np.int64),
            **self.summaries,
        )

    def manifests(self, rows: Sequence[int]) -> list[ManifestFile]:
        """The manifests of these rows."""
        at = arrow_array(np.array(rows, np.int64))
        plain: dict[str, list[Any]] = {name: array.take(at).to_pylist() for name, array in self.plain.items()}
        columns = {
            **plain,
            "length": _or_zero(plain["length"]),
            "content": [_CONTENTS[number] for number in plain["content"]],
            "sequence_number": _or_zero(plain["sequence_number"]),
            "min_sequence_number": [max(number, 0) for number in _or_zero(plain["min_sequence_number"])],
            # A negative count is unknown: the writer did not count.
            **{name: [None if n is None or n < 0 else n for n in plain[name]] for name in _COUNTS},
            "partitions": [None] * len(rows) if self.places is None else self._partitions(self.places.take(at)),
            "key_metadata": [key or None for key in plain["key_metadata"]],
        }
        return _built(ManifestFile, columns)

    def _partitions(self, places: pa.ListArray) -> list[tuple[FieldSummary, ...] | None]:
        at = places.values
        every = _built(FieldSummary, {name: array.take(at).to_pylist() for name, array in self.summaries.items()})
        offsets, missing = places.offsets.to_pylist(), null_mask(places).tolist()
        return [
            None if is_missing else tuple(every[start:end])
            for start, end, is_missing in zip(offsets, offsets[1:], missing, strict=False)
        ]


_CONTENTS: dict[int | None, ManifestContent] = {
    None: ManifestContent.DATA,
    **{content.value: content for content in ManifestContent},
}
_COUNTS = ("added_files", "existing_files", "deleted_files", "added_rows", "existing_rows", "deleted_rows")


def _refuse_senseless(file: str, paths: Sequence[str | None], plain: Mapping[str, pa.Array]) -> None:
    """Raise `Corrupt` for the first row without a path or spec, with a negative number or with an unknown content."""
    sequence, first_row_id, content = (
        numbers_of(plain[name], null=0) for name in ("sequence_number", "first_row_id", "content")
    )
    bad = null_mask(plain["spec_id"]) | (sequence < 0) | (first_row_id < 0)
    bad |= (content < min(ManifestContent)) | (content > max(ManifestContent))
    if all(paths) and not bad.any():
        return
    number = next(at for at, path in enumerate(paths) if not path or bad[at])
    if not (path := paths[number]):
        raise Corrupt(file, f"row {number} names no manifest")
    if not plain["spec_id"][number].is_valid:
        raise Corrupt(file, f"row {number} ({path}) has no partition_spec_id")
    for name, values in (("sequence_number", sequence), ("first_row_id", first_row_id)):
        if values[number] < 0:
            raise Corrupt(file, f"row {number} ({path}) has a {name} of {values[number]}")
    raise Corrupt(file, f"row {number} ({path}) has an unknown content of {content[number]}")


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


def _summaries(found: FoundColumns) -> tuple[pa.ListArray | None, dict[str, pa.Array]]:
    """The places of each row's summaries, and the columns of all summaries."""
    lists = found.raw(507)
    if lists is None or lists.null_count == len(lists):
        return None, {name: pa.nulls(0, type_) for name, (_, type_) in _SUMMARY_COLUMNS.items()}
    if not pa.types.is_list(lists.type) or not pa.types.is_struct(lists.type.value_type):
        raise Corrupt(found.file, f"field 507 (partitions) is {lists.type} where a list of records belongs")
    inner = FoundColumns(found.file, lists.values, _SUMMARY_NAMES)
    columns = {name: inner.nullable(id_, type_) for name, (id_, type_) in _SUMMARY_COLUMNS.items()}
    # not recorded as free of nulls: perhaps some
    columns["contains_null"] = arrow_array(flags_of(columns["contains_null"], null=True))
    numbers = arrow_array(np.arange(inner.rows, dtype=np.int64))
    valid, ends, *_ = lists.buffers()
    return pa.Array.from_buffers(pa.list_(pa.int64()), len(lists), [valid, ends], children=[numbers]), columns


_SUMMARY_COLUMNS: Mapping[str, tuple[int, pa.DataType]] = {
    "contains_null": (509, pa.bool_()),
    "contains_nan": (518, pa.bool_()),
    "lower_bound": (510, pa.binary()),
    "upper_bound": (511, pa.binary()),
}


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

"""Manifests to a manifest list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from esker import avro
from esker.errors import InvalidInput
from esker.iceberg.column import Column, avro_field, record
from esker.iceberg.manifest_list import COLUMNS
from esker.tree.manifest_list import FieldSummary, ManifestContent, ManifestFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ListForm:
    """What a list says of its snapshot, and in which version (A6)."""

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
    """The list as an Avro container; further keywords are those of ``ListForm``."""
    form = ListForm(**form_of)
    return avro.write(form.schema, form.rows(manifests), metadata=form.header, codec=codec)


def extend_manifest_list(
    file: str, parent: bytes, new: Iterable[ManifestFile], form: ListForm
) -> avro.Prepended | None:
    """The new manifests and then those of the parent's list, which are copied undecoded; None where it is of
    another version or writer."""
    return avro.prepend(parent, file=file, schema=form.schema, records=form.rows(new), metadata=form.header)


def assign_first_row_ids(manifests: Sequence[ManifestFile], next_row_id: int) -> tuple[tuple[ManifestFile, ...], int]:
    """Row ids for data manifests that have none (I2), and the table's next row id after them (I3).

    Each takes as many ids as it has live rows, existing ones too; delete manifests take none.
    """
    assigned = []
    for manifest in manifests:
        if manifest.content is ManifestContent.DATA and manifest.first_row_id is None:
            if manifest.added_rows is None or manifest.existing_rows is None:
                raise InvalidInput(f"cannot assign row ids: {manifest.path} does not say how many rows it has")
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
    """A row that its version can hold: what v1 left out must be known before v2 can write it."""
    if format_version == 1 and manifest.content is ManifestContent.DELETES:
        raise InvalidInput(f"cannot list {manifest.path} in format version 1: it has deletes, which came with 2")
    missing = [c.name for c in COLUMNS if c.name in row and row[c.name] is None and format_version >= c.required_since]
    if missing:
        raise InvalidInput(
            f"cannot list {manifest.path} in format version {format_version}: {', '.join(missing)} is not known"
        )
    return row

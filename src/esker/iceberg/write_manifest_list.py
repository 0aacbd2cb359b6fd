"""Manifests to a manifest list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from esker import avro
from esker.errors import InvalidInput
from esker.iceberg.column import avro_field, record
from esker.iceberg.manifest_list import COLUMNS
from esker.tree.manifest_list import FieldSummary, ManifestContent, ManifestFile


def encode_manifest_list(
    manifests: Iterable[ManifestFile],
    *,
    snapshot_id: int,
    parent_snapshot_id: int | None = None,
    sequence_number: int = 0,
    format_version: int = 2,
    first_row_id: int | None = None,
    codec: str = "deflate",
) -> bytes:
    """The list as an Avro container, with the header that Java and PyIceberg write (A6)."""
    header = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
        "format-version": str(format_version),
    }
    if format_version > 1:
        header["sequence-number"] = str(sequence_number)
    if format_version > 2:
        header["first-row-id"] = "null" if first_row_id is None else str(first_row_id)
    written = [column for column in COLUMNS if column.is_written_in(format_version)]
    schema = record("manifest_file", [avro_field(column, format_version) for column in written])
    rows = (
        _checked({column.name: _stored(manifest, column.attribute) for column in written}, manifest, format_version)
        for manifest in manifests
    )
    return avro.write(schema, rows, metadata=header, codec=codec)


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

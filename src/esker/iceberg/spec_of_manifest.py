"""The partition spec that a manifest's own header describes, for when the table's metadata has none by that id."""

from __future__ import annotations

from collections.abc import Mapping

from esker.errors import Corrupt
from esker.iceberg.json_object import decode_json
from esker.iceberg.partition_spec import decode_partition_fields
from esker.model.partition import PartitionSpec
from esker.tree.manifest_list import ManifestFile


def spec_of_manifest(manifest: ManifestFile, header: Mapping[str, bytes]) -> PartitionSpec:
    """The header's spec under the id the list gives it; `Corrupt` where the header has none (C5)."""
    written = header.get("partition-spec")
    if written is None:
        raise Corrupt(
            manifest.path,
            f"its partition spec {manifest.spec_id} is not in the table's metadata, and its header has none",
        )
    value = decode_json(manifest.path, written, "its partition-spec")
    # a bare array is the rule; some writers put the whole object there (A5)
    fields = value.get("fields") if isinstance(value, dict) else value
    if not isinstance(fields, list):
        raise Corrupt(manifest.path, "its partition-spec is neither a list of fields nor an object that has one")
    return PartitionSpec(spec_id=manifest.spec_id, fields=decode_partition_fields(manifest.path, fields))


def spec_id_of_header(header: Mapping[str, bytes]) -> int:
    """The spec id a header names, 0 where it names none that is a number."""
    word = header.get("partition-spec-id", b"").strip()
    return int(word) if word.isdigit() else 0

"""Folder names of partitions, as Iceberg's own writers spell them: ``name=value``, form-encoded.

Folders carry no meaning in Iceberg (the manifest holds the values), so they are for people and for tools that list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

from esker.metadata_tables.human_values import human
from esker.model.partition import PartitionField, PartitionSpec
from esker.model.transform import result_type
from esker.model.types import UNKNOWN, Field

_LONGEST = 200  # bytes of one folder name; file systems end at 255


def partition_path(spec: PartitionSpec, sources: Mapping[int, Field], partition: tuple[Any, ...]) -> str:
    """The folders of a partition below the table's data folder; nothing for an unpartitioned spec."""
    return "/".join(
        _folder(field, sources.get(field.source_id), value) for field, value in zip(spec.fields, partition, strict=True)
    )


def _folder(field: PartitionField, source: Field | None, value: Any) -> str:
    type_ = result_type(field.transform, UNKNOWN if source is None else source.type)
    folder = f"{_encoded(field.name)}={_encoded(human(field.transform, type_, value))}"
    if len(folder) <= _LONGEST:
        return folder
    # Cut where no name can be told apart by its start any more: the hash does that.
    return f"{folder[: _LONGEST - 17]}~{hashlib.sha256(folder.encode()).hexdigest()[:16]}"


def _encoded(text: str) -> str:
    """As ``java.net.URLEncoder``: letters, digits and ``.-*_`` stay, a blank becomes ``+``."""
    return quote_plus(text, safe="*").replace("~", "%7E")

"""A snapshot file and a tag file: which manifest lists are one state of the table, and which commit made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from esker.errors import Corrupt, Unsupported

VERSION = 3
BATCH = 9223372036854775807  # the commit identifier of a batch job


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonSnapshot:
    """One state of a table. The names of the fields are those of the file, in Python's form."""

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: str  # APPEND, COMPACT, OVERWRITE or ANALYZE
    time_millis: int
    version: int = VERSION
    uuid: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    total_record_count: int | None = None  # rows in files, before merging
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    writer_version: str | None = None
    operation: str | None = None
    tag_create_time: Any = None  # only in tags
    tag_time_retained: Any = None

    @property
    def manifest_lists(self) -> tuple[str, str]:
        """The lists of the snapshot's state: the base, then the changes of this commit."""
        return self.base_manifest_list, self.delta_manifest_list


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


_KEYS = {field.name: _camel(field.name) for field in fields(PaimonSnapshot)}
_NEEDED = ("id", "schema_id", "base_manifest_list", "delta_manifest_list", "commit_user", "commit_identifier")
_NUMBERS = ("id", "schema_id", "commit_identifier", "time_millis", "total_record_count", "delta_record_count")


def decode_snapshot(file: str, data: bytes) -> PaimonSnapshot:
    """The snapshot in a snapshot or tag file. Unknown fields are ignored. Raises ``Corrupt``."""
    try:
        given = msgspec.json.decode(data)
        found = {name: given[key] for name, key in _KEYS.items() if given.get(key) is not None}
    except (msgspec.DecodeError, AttributeError, TypeError) as error:
        raise Corrupt(file, f"it is no Paimon snapshot: {error}") from None
    lacking = next((name for name in (*_NEEDED, "commit_kind", "time_millis") if name not in found), None)
    if lacking is not None:
        raise Corrupt(file, f"it is no Paimon snapshot: it has no {_KEYS[lacking]}")
    wrong = next((name for name in _NUMBERS if type(found.get(name, 0)) is not int), None)
    if wrong is not None:
        raise Corrupt(file, f"its {_KEYS[wrong]} is no whole number")
    version = found.get("version", 1)
    if version > VERSION:
        raise Unsupported(f"cannot read {file}: snapshot version {version} is not known", feature="snapshot version")
    return PaimonSnapshot(**found)


def encode_snapshot(snapshot: PaimonSnapshot) -> bytes:
    """The content of a snapshot or tag file. Fields that are None are left out."""
    given = {key: getattr(snapshot, name) for name, key in _KEYS.items()}
    return msgspec.json.format(
        msgspec.json.encode({key: value for key, value in given.items() if value is not None}), indent=2
    )

"""What a REST server answers about a table or a view: its metadata, settings, and credentials for its files.

Metadata comes from the answer and is never read from ``metadata-location``: that may be an address of the server's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from esker.catalogs.rest.transport import Answer
from esker.errors import Corrupt
from esker.iceberg.json_document import JsonObject, decode_json, decode_raw_fields
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.iceberg.metadata.view_metadata import decode_view_metadata
from esker.ports.catalog import TableState, ViewState
from esker.ports.credentials import StorageCredentials
from esker.storage.location import Location

_STORAGE = ("s3.", "gcs.", "adls.", "client.")
_EXPIRY = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTable:
    """A table as the server sent it."""

    state: TableState
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: tuple[StorageCredentials, ...] = field(default=(), repr=False)
    etag: str | None = None


def loaded_table(answer: Answer, source: str) -> LoadedTable:
    """The table in an answer to a load, a create or a commit; ``Corrupt`` where the answer holds none."""
    fields = decode_raw_fields(source, answer.body, "the answer")
    if "metadata" not in fields:
        raise Corrupt(source, "the answer holds no 'metadata'")
    metadata = decode_table_metadata(source, bytes(fields["metadata"]))
    place = _text(source, fields.get("metadata-location"))
    if place is None:  # optional in the protocol; a version is then known by what it says of itself
        place = f"{source}#{metadata.uuid}-{metadata.last_updated_ms}-{metadata.last_sequence_number}"
    config = _texts(source, fields.get("config"), "config")
    return LoadedTable(
        state=TableState(metadata=metadata, metadata_location=place),
        config=config,
        credentials=credentials_in(source, fields.get("storage-credentials"), config, metadata.location),
        etag=answer.headers.get("etag"),
    )


def loaded_view(answer: Answer, source: str) -> ViewState:
    """The view in an answer."""
    fields = decode_raw_fields(source, answer.body, "the answer")
    if "metadata" not in fields:
        raise Corrupt(source, "the answer holds no 'metadata'")
    metadata = decode_view_metadata(source, bytes(fields["metadata"]))
    place = _text(source, fields.get("metadata-location"))
    return ViewState(metadata=metadata, metadata_location=place or f"{source}#{metadata.current_version_id}")


def credentials_in(
    source: str, listed: msgspec.Raw | None, config: Mapping[str, str], location: str
) -> tuple[StorageCredentials, ...]:
    """Credentials for the table's files: those that are listed with their prefixes, else those among its settings."""
    document = [] if listed is None else decode_json(source, listed, "'storage-credentials'") or []
    if not isinstance(document, list):
        raise Corrupt(source, "'storage-credentials' must be an array")
    found = []
    for number, one in enumerate(document):
        item = JsonObject(source, f"storage credential {number}", one)
        own = item.strings("config")
        found.append(StorageCredentials(prefix=item.string("prefix"), config=own, expires_at_ms=expiry(own)))
    if found:
        return tuple(found)
    own = {name: value for name, value in config.items() if name.startswith(_STORAGE)}
    parsed = Location.parse(location)
    if not own or parsed.scheme == "file":
        return ()
    return (StorageCredentials(prefix=location, config=own, expires_at_ms=expiry(own)),)


def expiry(config: Mapping[str, str]) -> int | None:
    """When credentials end, in milliseconds, where they say so."""
    said = [value for name, value in config.items() if name.startswith(_EXPIRY) and value.isdecimal()]
    return min(map(int, said), default=None)


def _text(source: str, raw: msgspec.Raw | None) -> str | None:
    value: Any = None if raw is None else decode_json(source, raw, "'metadata-location'")
    return value if isinstance(value, str) else None


def _texts(source: str, raw: msgspec.Raw | None, what: str) -> dict[str, str]:
    value = {} if raw is None else decode_json(source, raw, repr(what)) or {}
    if not isinstance(value, dict):
        raise Corrupt(source, f"{what!r} must be an object")
    return {str(name): str(one) for name, one in value.items() if one is not None}

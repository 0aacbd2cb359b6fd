"""What a REST server answers about a table or a view: its metadata, settings, and credentials for its files.

Metadata comes from the answer and is never read from ``metadata-location``: that may be an address of the server's own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from esker.catalogs.rest.nessie import commit_id
from esker.catalogs.rest.transport import Answer
from esker.errors import Corrupt
from esker.iceberg.json_document import JsonObject, decode_json, decode_raw_fields
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.iceberg.metadata.view_metadata import decode_view_metadata
from esker.model.table_names import TableName
from esker.ports.catalog import TableState, ViewState
from esker.ports.credentials import StorageCredentials
from esker.storage.location import Location

_REMEMBERED = 1000  # versions of tables
_STORAGE = ("s3.", "gcs.", "adls.", "client.")
_EXPIRY = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTable:
    """A table as the server sent it."""

    state: TableState
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: tuple[StorageCredentials, ...] = field(default=(), repr=False)
    signing: Mapping[str, Any] = field(default_factory=dict, repr=False)  # how requests to be signed are sent
    etag: str | None = None
    says_access: bool = True  # whether the answer says how files are reached; answers to commits do not


@dataclass(frozen=True, slots=True)
class Version:
    """How the server names one version of a table."""

    etag: str | None = None
    commit_id: str | None = None  # Nessie's


class KnownVersions:
    """The names of the versions that were loaded, the newest ones."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[TableName, str], Version] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, name: TableName, location: str, loaded: LoadedTable) -> None:
        """Keep the names that an answer gives to the version at a location."""
        with self._lock:
            self._found[name, location] = Version(loaded.etag, commit_id(loaded.state.metadata.properties))
            while len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)

    def of(self, name: TableName, state: TableState) -> Version:
        """The names of a version, without any if it is not known."""
        with self._lock:
            return self._found.get((name, state.metadata_location), Version())


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
        signing=_object(source, fields.get("remote-signing-config")),
        etag=answer.headers.get("etag"),
        says_access="config" in fields or "storage-credentials" in fields,
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


def _object(source: str, raw: msgspec.Raw | None) -> dict[str, Any]:
    value = {} if raw is None else decode_json(source, raw, "'remote-signing-config'") or {}
    if not isinstance(value, dict):
        raise Corrupt(source, "'remote-signing-config' must be an object")
    return value


def _texts(source: str, raw: msgspec.Raw | None, what: str) -> dict[str, str]:
    value = {} if raw is None else decode_json(source, raw, repr(what)) or {}
    if not isinstance(value, dict):
        raise Corrupt(source, f"{what!r} must be an object")
    return {str(name): str(one) for name, one in value.items() if one is not None}

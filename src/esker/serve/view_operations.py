"""The operations on views, and their updates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import msgspec

from esker.catalogs.rest.metadata_updates import LAST_ADDED
from esker.catalogs.warehouse import METADATA_PATH
from esker.errors import Corrupt, InvalidInput, Unsupported
from esker.iceberg.json_document import JsonObject
from esker.iceberg.metadata.schema import decode_schema, encode_schema
from esker.iceberg.metadata.view_metadata import decode_view_metadata, encode_view_metadata
from esker.model.schema import Schema
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, RegistersViews, ViewState
from esker.serve.call import NOTHING, REQUEST, Answer, Call, answer_json
from esker.serve.error_answers import BadArgument, CommitRefused, NotOffered
from esker.serve.namespace_operations import paged
from esker.serve.store.check_places import Claim, Places
from esker.serve.table_operations import identifier_in_namespace, named, naming_both, renaming
from esker.tree.view_metadata import VersionLogEntry, ViewMetadata, ViewVersion
from esker.write.views.view_versions import checked_view_properties, commit_view, with_kept_versions

_MOST_UPDATES = 500  # of one commit; each copies the view


class Views:
    """Lists, creates, loads, replaces and drops the views of a catalog."""

    def __init__(self, catalog: Catalog, places: Places) -> None:
        self._tables = catalog
        self._catalog = catalog.view_catalog()
        self._places = places

    def list(self, call: Call) -> Answer:
        """The names of the views of a namespace."""
        return answer_json(paged("identifiers", named(self._catalog.views(call.namespace)), call))

    def create(self, call: Call) -> Answer:
        """Create a view."""
        document = call.document()
        name = identifier_in_namespace(call, document.string("name"))
        self._tables.namespace_properties(name.namespace)
        location = document.string_or_none("location") or self._places.free(name, self._tables.location_for(name))
        metadata = _first(document, location)
        with self._places.held(self._places.check_view(name, metadata.location, metadata.properties)):
            return _described(self._catalog.create_view(name, metadata))

    def register(self, call: Call) -> Answer:
        """Add a view to the catalog by its metadata file."""
        if not isinstance(self._catalog, RegistersViews):
            raise NotOffered("cannot register a view: the catalog behind this server has no views", feature="views")
        document = call.document()
        name = identifier_in_namespace(call, document.string("name"))
        file = document.string("metadata-location")
        self._tables.namespace_properties(name.namespace)
        claims = self._places.check_view(name, *self._places_in(file))
        with self._places.held(claims):
            return _described(self._catalog.register_view(name, file))

    def _places_in(self, file: str) -> tuple[str, Mapping[str, str]]:
        """The location and the properties of the view in a metadata file. Raises ``InvalidInput`` if it is none."""
        try:
            found = decode_view_metadata(file, self._tables.storage().read(file))
        except Corrupt as error:
            raise InvalidInput(f"cannot use {file}: it is not the metadata of a view: {error.reason}") from None
        except Unsupported as error:
            raise InvalidInput(error.message) from error
        return found.location, found.properties

    def load_registered(self, call: Call) -> Answer:
        """The view that a request has registered before."""
        name = identifier_in_namespace(call, call.document().string("name"))
        return _described(self._catalog.load_view(name))

    def load(self, call: Call) -> Answer:
        """The metadata of a view."""
        return _described(self._catalog.load_view(call.view))

    def exists(self, call: Call) -> Answer:
        """Whether a view exists."""
        self._catalog.load_view(call.view)
        return NOTHING

    def replace(self, call: Call) -> Answer:
        """Commit to a view: its requirements first, then its updates in their order."""
        name, document = call.view, call.document()

        def change(base: ViewMetadata) -> ViewMetadata:
            _check_requirements(name, base, document)
            return _updated(base, document)

        now = self._catalog.load_view(name).metadata
        new = change(now)
        claims: list[Claim] = []
        if _view_places(new) != _view_places(now):
            claims = self._places.check_view(name, new.location, new.properties)
        with self._places.held(claims):
            return _described(commit_view(self._catalog, name, change))

    def drop(self, call: Call) -> Answer:
        """Remove a view from the catalog."""
        self._catalog.drop_view(call.view)
        return NOTHING

    def rename(self, call: Call) -> Answer:
        """Give a view another name."""
        source, target = renaming(call)
        self._catalog.load_view(source)
        self._tables.namespace_properties(target.namespace)
        with naming_both(source, target):
            self._catalog.rename_view(source, target)
        return NOTHING


def _view_places(view: ViewMetadata) -> tuple[str, str | None]:
    return view.location, view.properties.get(METADATA_PATH)


def _described(state: ViewState) -> Answer:
    document: dict[str, Any] = {
        "metadata-location": state.metadata_location,
        "metadata": msgspec.Raw(encode_view_metadata(state.metadata)),
        "config": {},
    }
    return answer_json(document)


def _first(document: JsonObject, location: str) -> ViewMetadata:
    schema = replace(decode_schema(REQUEST, document.required("schema")), schema_id=0)
    version = {**document.object("view-version").fields, "version-id": 1, "schema-id": 0}
    at_ms = document.object("view-version").integer("timestamp-ms")
    return _decoded(
        {
            "view-uuid": str(uuid4()),
            "format-version": 1,
            "location": location.rstrip("/"),
            "properties": checked_view_properties(document.strings("properties")),
            "schemas": [encode_schema(schema)],
            "current-version-id": 1,
            "versions": [version],
            "version-log": [{"timestamp-ms": at_ms, "version-id": 1}],
        }
    )


def _decoded(document: Mapping[str, Any]) -> ViewMetadata:
    for version in document["versions"]:
        _check_dialects(version)
    found = decode_view_metadata(REQUEST, msgspec.json.encode(document))
    for version in found.versions:
        if not version.representations:
            raise InvalidInput("cannot create a version of a view without a query")
    return found


def _check_dialects(version: Mapping[str, Any]) -> None:
    queries = version.get("representations")
    dialects = [str(one.get("dialect")).lower() for one in queries or () if isinstance(one, dict)]
    if twice := next((one for one in dialects if dialects.count(one) > 1), None):
        raise BadArgument(f"Invalid view version: Cannot add multiple queries for dialect {twice}")


def _check_requirements(name: TableName, base: ViewMetadata, document: JsonObject) -> None:
    for requirement in document.objects("requirements", "requirement"):
        kind = requirement.string("type")
        if kind != "assert-view-uuid":
            raise InvalidInput(f"cannot check the requirement {kind!r} of a view: it is not known")
        if requirement.string("uuid").lower() != base.uuid.lower():
            raise CommitRefused(f"cannot change view {name}: requirement failed: its uuid is {base.uuid}")


def _updated(base: ViewMetadata, document: JsonObject) -> ViewMetadata:
    """The view after the updates of a request. Raises ``InvalidInput`` for an update that is not known or is wrong."""
    if (number := len(document.items("updates"))) > _MOST_UPDATES:
        raise InvalidInput(f"cannot commit {number} updates to a view at once: at most {_MOST_UPDATES}")
    view, last_schema, last_version = base, None, None
    added: dict[int, int] = {}  # ids that the client gave its versions, and those that they have
    for update in document.objects("updates", "update"):
        match update.string("action"):
            case "assign-uuid":
                if update.string("uuid").lower() != view.uuid.lower():
                    raise InvalidInput(f"cannot give the view another uuid: it has {view.uuid}, which never changes")
            case "upgrade-format-version":
                if update.integer("format-version") != 1:
                    raise InvalidInput("cannot change the format version of the view: 1 is the only one")
            case "set-location":
                view = replace(view, location=update.string("location").rstrip("/"))
            case "set-properties":
                given = checked_view_properties(update.strings("updates"))
                view = replace(view, properties={**view.properties, **given})
            case "remove-properties":
                gone = update.items("removals")
                kept = {key: value for key, value in view.properties.items() if key not in gone}
                view = replace(view, properties=kept)
            case "add-schema":
                view, last_schema = _with_schema(view, decode_schema(REQUEST, update.required("schema")))
            case "add-view-version":
                sent = update.object("view-version")
                view, last_version = _with_version(view, sent, last_schema)
                added[sent.integer("version-id")] = last_version
            case "set-current-view-version":
                wanted = update.integer("view-version-id")
                chosen = last_version if wanted == LAST_ADDED else added.get(wanted, wanted)
                view = _with_current(view, chosen)
            case other:
                raise InvalidInput(f"cannot apply the update {other!r} to a view: it is not known")
    return with_kept_versions(view)


def _with_schema(view: ViewMetadata, schema: Schema) -> tuple[ViewMetadata, int]:
    same = (one.schema_id for one in view.schemas if replace(schema, schema_id=one.schema_id) == one)
    if (known := next(same, None)) is not None:
        return view, known
    id_ = max(one.schema_id for one in view.schemas) + 1
    return replace(view, schemas=(*view.schemas, replace(schema, schema_id=id_))), id_


def _with_version(view: ViewMetadata, sent: JsonObject, last_schema: int | None) -> tuple[ViewMetadata, int]:
    schema_id = sent.integer("schema-id")
    if schema_id == LAST_ADDED:
        if last_schema is None:
            raise InvalidInput("cannot choose the last added schema: this commit adds none")
        schema_id = last_schema
    if all(schema.schema_id != schema_id for schema in view.schemas):
        raise InvalidInput(f"cannot add a version: the view has no schema {schema_id}")
    number = max(version.version_id for version in view.versions) + 1
    whole = msgspec.json.decode(encode_view_metadata(view))
    whole["versions"] = [{**sent.fields, "version-id": number, "schema-id": schema_id}]
    whole["current-version-id"] = number
    new: ViewVersion = _decoded(whole).versions[0]
    same = next((one for one in view.versions if one.says_the_same(new)), None)
    if same is not None:
        return view, same.version_id
    return replace(view, versions=(*view.versions, new)), number


def _with_current(view: ViewMetadata, version_id: int | None) -> ViewMetadata:
    found = next((one for one in view.versions if one.version_id == version_id), None)
    if version_id is None or found is None:
        raise InvalidInput(f"cannot choose version {version_id}: the view has none with this id")
    if version_id == view.current_version_id:
        return view
    last = view.version_log[-1].timestamp_ms if view.version_log else 0
    at_ms = max(time.time_ns() // 1_000_000, last, found.timestamp_ms)
    entry = VersionLogEntry(timestamp_ms=at_ms, version_id=version_id)
    return replace(view, current_version_id=version_id, version_log=(*view.version_log, entry))

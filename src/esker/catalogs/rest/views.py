"""Views of a REST catalog; keeps the contract of ``ports.catalog.ViewCatalog``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from esker.catalogs.refusals import (
    Kind,
    checked_namespace,
    dotted,
    missing,
    no_such_namespace,
    table_exists,
)
from esker.catalogs.rest.commits import identifier
from esker.catalogs.rest.files import RestFiles
from esker.catalogs.rest.loaded import loaded_view
from esker.catalogs.rest.metadata_updates import LAST_ADDED, Document
from esker.catalogs.rest.nessie import commit_id, is_address, is_nessie, required_commit_id
from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.server_errors import error_in, failure
from esker.catalogs.rest.service import RestService
from esker.catalogs.rest.transport import Answer
from esker.errors import EskerError, InvalidInput, NotFound, Unsupported
from esker.iceberg.metadata.schema import encode_schema
from esker.iceberg.metadata.view_metadata import encode_view_metadata
from esker.model.table_names import Namespace, TableName
from esker.ports.catalog import Rejected, Unanswered, ViewAccepted, ViewState, ViewSwap
from esker.tree.view_metadata import ViewMetadata

if TYPE_CHECKING:
    from esker.catalogs.rest.rest_catalog import RestCatalog


class RestViews:
    """The views beside the tables of a REST catalog."""

    def __init__(self, service: RestService, files: RestFiles, tables: RestCatalog) -> None:
        self._service = service
        self._files = files
        self._tables = tables

    def catalog_name(self) -> str | None:
        return None  # each engine has a name of its own for it

    def views(self, namespace: Namespace) -> tuple[TableName, ...]:
        doing = f"list views of {dotted(checked_namespace(namespace))}"
        return self._tables.listed(Operation.LIST_VIEWS, namespace, doing)

    def load_view(self, name: TableName) -> ViewState:
        answer = self._service.ask(Operation.LOAD_VIEW, self._tables.checked(name), f"load view {name}")
        if answer.status == 404:
            raise missing(name, Kind.VIEW, self._tables.kind_of(name))
        return self._loaded(name, answer)

    def create_view(self, name: TableName, metadata: ViewMetadata) -> ViewState:
        doing = f"create view {self._tables.checked(name)}"
        self._files.check_view(metadata.location)
        if not self._tables.has_namespace(name.namespace):
            raise no_such_namespace(name.namespace)
        if (there := self._tables.kind_of(name)) is not None:
            raise table_exists(name, there, new=Kind.VIEW)
        body = {
            "name": name.name,
            "location": metadata.location,
            "schema": encode_schema(metadata.schema),
            "view-version": _versions(metadata)[metadata.current_version_id],
            "properties": dict(metadata.properties),
        }
        answer = self._service.change(Operation.CREATE_VIEW, name.namespace, body, doing)
        if answer.status == 404:
            raise no_such_namespace(name.namespace)
        if answer.status == 409:
            raise table_exists(name, self._tables.kind_of(name) or Kind.VIEW, new=Kind.VIEW)
        return self._loaded(name, answer)

    def swap_view(self, name: TableName, base: ViewState, new: ViewMetadata) -> ViewSwap:
        if new.uuid.lower() != base.metadata.uuid.lower():
            raise InvalidInput(f"cannot change view {name}: its uuid is {base.metadata.uuid}, the new one's {new.uuid}")
        doing = f"change view {self._tables.checked(name)}"
        self._service.require(Operation.REPLACE_VIEW, doing)
        at = required_commit_id(base.metadata.properties, f"view {name}") if is_nessie(self._service.settings) else ""
        if not at and not self._is_current(name, base):  # a server compares the uuid alone
            return Rejected(f"view {name} was changed, dropped or renamed")
        body = {
            "identifier": identifier(name),
            "requirements": [{"type": "assert-view-uuid", "uuid": base.metadata.uuid}],
            "updates": view_updates(base.metadata, new),
        }
        told = self._service.tell(Operation.REPLACE_VIEW, name, body, resend=bool(at), at=at)
        if told.answer is not None and told.answer.is_success:
            try:
                return ViewAccepted(self._committed(name, self._loaded(name, told.answer)))
            except EskerError:
                return Unanswered("the answer of the server cannot be read")
        if told.may_be_made:
            return Unanswered(told.why)
        if told.answer is None:
            raise self._service.silence(doing, told.why)
        if told.answer.status in (404, 409):
            said = error_in(told.answer, self._service.secrets)
            return Rejected(f"view {name} was changed, dropped or renamed: {said}")
        raise failure(told.answer, doing, self._service.address, self._service.secrets)

    def register_view(self, name: TableName, metadata_location: str) -> ViewState:
        doing = f"register view {self._tables.checked(name)}"
        self._files.check_view(metadata_location)
        if not self._tables.has_namespace(name.namespace):
            raise no_such_namespace(name.namespace)
        body = {"name": name.name, "metadata-location": metadata_location}
        answer = self._service.change(Operation.REGISTER_VIEW, name.namespace, body, doing)
        if answer.status == 404:
            raise NotFound(f"cannot {doing}: {error_in(answer, self._service.secrets)}", file=metadata_location)
        if answer.status == 409:
            raise table_exists(name, self._tables.kind_of(name) or Kind.VIEW, new=Kind.VIEW)
        return self._loaded(name, answer)

    def drop_view(self, name: TableName) -> None:
        self._tables.dropped(Operation.DROP_VIEW, name, Kind.VIEW, {})

    def rename_view(self, old: TableName, new: TableName) -> None:
        self._tables.renamed(Operation.RENAME_VIEW, old, new, Kind.VIEW)

    def _committed(self, name: TableName, state: ViewState) -> ViewState:
        """The version that a commit made. Nessie answers with an address of its own; the file is asked for."""
        version = commit_id(state.metadata.properties)
        if version is None or not is_address(state):
            return state
        try:
            answer = self._service.ask(Operation.LOAD_VIEW, name, f"load view {name}", at=version)
            return self._loaded(name, answer) if answer.is_success else state
        except EskerError:  # the commit is made
            return state

    def _is_current(self, name: TableName, base: ViewState) -> bool:
        try:
            return self.load_view(name).metadata_location == base.metadata_location
        except NotFound:
            return False

    def _loaded(self, name: TableName, answer: Answer) -> ViewState:
        return loaded_view(answer, f"the answer of {self._service.address} for {name}")


def view_updates(base: ViewMetadata, new: ViewMetadata) -> list[Document]:
    """The updates that make ``base`` into ``new``. The server numbers versions; the log is its own."""
    found: list[Document] = []
    if new.format_version != base.format_version:
        found.append({"action": "upgrade-format-version", "format-version": new.format_version})
    if new.location != base.location:
        found.append({"action": "set-location", "location": new.location})
    known = {schema.schema_id for schema in base.schemas}
    found += [
        {"action": "add-schema", "schema": encode_schema(schema), "last-column-id": schema.highest_id}
        for schema in new.schemas
        if schema.schema_id not in known
    ]
    versions = {version.version_id for version in base.versions}
    fresh = [id_ for id_ in _versions(new) if id_ not in versions]
    fresh.sort(key=lambda id_: (id_ == new.current_version_id, id_))
    documents = _versions(new)
    found += [{"action": "add-view-version", "view-version": documents[id_]} for id_ in fresh]
    if new.current_version_id != base.current_version_id:
        chosen = LAST_ADDED if fresh and fresh[-1] == new.current_version_id else new.current_version_id
        found.append({"action": "set-current-view-version", "view-version-id": chosen})
    set_ = {name: value for name, value in new.properties.items() if base.properties.get(name) != value}
    removed = [name for name in base.properties if name not in new.properties]
    if set_:
        found.append({"action": "set-properties", "updates": set_})
    if removed:
        found.append({"action": "remove-properties", "removals": removed})
    if not found:
        raise Unsupported("cannot change the view: the difference cannot be sent to a REST catalog", feature="views")
    return found


def _versions(metadata: ViewMetadata) -> dict[int, dict[str, Any]]:
    """The versions as documents, by their ids."""
    document = msgspec.json.decode(encode_view_metadata(metadata))
    return {version["version-id"]: version for version in document["versions"]}

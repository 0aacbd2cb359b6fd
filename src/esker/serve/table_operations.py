"""The operations on tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from esker.catalogs.refusals import Kind, table_exists
from esker.errors import AlreadyExists, Corrupt, InvalidInput, NoSuchTable, OutcomeUnknown, Unsupported
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.model.table_names import TableName
from esker.ports.catalog import Accepted, Rejected, ReplacesTables, TableState, Unanswered, UnregistersTables
from esker.serve.apply_commits import Commit, Commits
from esker.serve.call import NOTHING, Answer, Call, answer_json, identifier_in
from esker.serve.error_answers import CommitRefused, NotOffered
from esker.serve.namespace_operations import paged
from esker.serve.new_tables import requested_table
from esker.serve.store.check_places import Places
from esker.serve.store.table_access import HEADER as DELEGATION
from esker.serve.store.table_access import TableAccess
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from esker.lake import Lake

_FORMS = ("all", "refs")
_MOST_TABLES = 1000  # of one commit
_VARY = f"Accept-Encoding, {DELEGATION}"


class Tables:
    """Lists, creates, loads, changes and drops the tables of a lake.

    ``access`` says how clients reach the files of a table.
    """

    def __init__(self, lake: Lake, commits: Commits, places: Places, access: TableAccess) -> None:
        self._lake = lake
        self._catalog = lake.catalog
        self._commits = commits
        self._known = commits.known
        self._places = places
        self._access = access

    def list(self, call: Call) -> Answer:
        """The names of the tables of a namespace."""
        return answer_json(paged("identifiers", named(self._catalog.tables(call.namespace)), call))

    def create(self, call: Call) -> Answer:
        """Create an empty table; with ``stage-create`` only prepare its metadata, and create nothing."""
        document = call.document()
        name = identifier_in_namespace(call, document.string("name"))
        self._catalog.namespace_properties(name.namespace)
        staged = document.boolean("stage-create") if "stage-create" in document else False
        location = document.string_or_none("location")
        home = location or self._places.free(name, self._catalog.location_for(name))
        try:
            metadata = requested_table(document, home)
        except Unsupported as error:  # 406 would say that this server creates no tables
            raise InvalidInput(error.message) from error
        self._catalog.check_place(name, metadata)
        self._check_free(name)
        claims = self._places.check_table(name, metadata)
        if staged:
            self._places.prepare(metadata)
            return self._described(name, TableState(metadata=metadata, metadata_location=""), call)
        fields = self._access.fields(name, metadata, call)  # first: nothing may fail once the table is there
        with self._places.held(claims):
            return self._answered(name, self._catalog.create(name, metadata), fields)

    def _check_free(self, name: TableName) -> None:
        if self._there(name) is not None:
            raise table_exists(name)

    def register(self, call: Call) -> Answer:
        """Add a table to the catalog by its metadata file."""
        document = call.document()
        name = identifier_in_namespace(call, document.string("name"))
        location = document.string("metadata-location")
        overwrites = "overwrite" in document and document.boolean("overwrite")
        state = self._registered(name, location, call, overwrites=overwrites)
        return self._answered(name, state, self._access.fields_if_possible(name, state.metadata, call))

    def _registered(self, name: TableName, location: str, call: Call, *, overwrites: bool) -> TableState:
        """The table that a name points at now. Raises ``AlreadyExists`` unless it may be overwritten."""
        self._catalog.namespace_properties(name.namespace)
        base = self._there(name)
        if base is not None and not overwrites:
            raise table_exists(name)
        with self._places.held(self._places.check_table(name, self._read(location), may_be_dropped=call.has)):
            if base is None:
                return self._catalog.register(name, location)
            if not isinstance(self._catalog, ReplacesTables):
                raise NotOffered("cannot overwrite a table: the catalog behind this server cannot", feature="overwrite")
            match self._catalog.register_over(name, base, location):
                case Accepted(state):
                    return state
                case Rejected(why):
                    raise CommitRefused(f"cannot register {name}: {why}; try again")
                case Unanswered(why):
                    raise OutcomeUnknown(f"the catalog did not say whether {name} was registered: {why}")

    def _read(self, location: str) -> TableMetadata:
        try:
            return decode_table_metadata(location, self._catalog.storage().read(location))
        except Corrupt as error:
            raise InvalidInput(f"cannot use {location}: it is not the metadata of a table: {error.reason}") from None
        except Unsupported as error:
            raise InvalidInput(error.message) from error

    def _there(self, name: TableName) -> TableState | None:
        try:
            return self._catalog.load(name)
        except NoSuchTable as error:
            if error.facts.get("there") == "view":
                raise table_exists(name, Kind.VIEW) from error
            return None

    def unregistered_before(self, call: Call) -> Answer:
        """The last metadata of a table that a request has removed before."""
        state = TableState(metadata=self._read(call.kept), metadata_location=call.kept)
        return self._answered(call.table, state, {"config": {}})

    def unregister(self, call: Call) -> Answer:
        """Remove a table from the catalog and return its last metadata. Its files stay. Later commits fail."""
        if not isinstance(self._catalog, UnregistersTables):
            raise NotOffered("cannot unregister a table: the catalog behind this server cannot", feature="unregister")
        return self._answered(call.table, self._catalog.unregister(call.table), {"config": {}})

    def load_created(self, call: Call) -> Answer:
        """The table that a request has created or registered before."""
        document = call.document()
        if "stage-create" in document and document.boolean("stage-create"):
            return self.create(call)
        name = identifier_in_namespace(call, document.string("name"))
        return self._described(name, self._known.load(name), call)

    def load(self, call: Call) -> Answer:
        """The metadata of a table: with all its snapshots, or with ``snapshots=refs`` only those that refs name."""
        name, form = call.table, _form(call)
        state = self._known.load(name)
        if not self._access.is_same_for_all(call):
            return _tagged(self._described(name, state, call), call)
        if _has(call, tag := _etag(state, form)):
            return Answer(status=304, headers={"etag": tag})
        kept = self._known.kept_load(name, state, form)
        if kept is None:
            answer = self._described(name, state, call)
            answer = replace(answer, headers={**answer.headers, "vary": _VARY})
            self._known.keep_load(name, state, form, answer)
            return answer
        return kept.best(accepts_gzip=call.accepts_gzip) or self._known.zipped(name, state, kept)

    def load_at_once(self, call: Call) -> Answer | None:
        """The answer of `load`, if it is in memory and known to be current without a wait; None if it is not."""
        kept = self._known.current_load(call.table, _form(call)) if self._access.is_same_for_all(call) else None
        if kept is None:
            return None
        if _has(call, tag := kept.plain.headers["etag"]):
            return Answer(status=304, headers={"etag": tag})
        return kept.best(accepts_gzip=call.accepts_gzip)

    def exists(self, call: Call) -> Answer:
        """Whether a table exists."""
        self._known.load(call.table)
        return NOTHING

    def update(self, call: Call) -> Answer:
        """Commit to one table."""
        commit = Commit.read(call.table, call.document())
        return self._answered(commit.name, self._commits.apply(commit), {})

    def commit_all(self, call: Call) -> Answer:
        """Commit to several tables, to all or to none."""
        document = call.document()
        if (number := len(document.items("table-changes"))) > _MOST_TABLES:
            raise InvalidInput(f"cannot commit to {number} tables at once: at most {_MOST_TABLES}")
        changes = [
            Commit.read(identifier_in(change.object("identifier")), change)
            for change in document.objects("table-changes", "table change")
        ]
        self._commits.apply_all(changes)
        return NOTHING

    def drop(self, call: Call) -> Answer:
        """Remove a table from the catalog; with ``purgeRequested`` delete its files too."""
        self._lake.drop_table(str(call.table), purge=call.flag("purgeRequested"))
        return NOTHING

    def rename(self, call: Call) -> Answer:
        """Give a table another name."""
        source, target = renaming(call)
        self._catalog.load(source)
        self._catalog.namespace_properties(target.namespace)
        with naming_both(source, target):
            self._catalog.rename(source, target)
        return NOTHING

    def credentials(self, call: Call) -> Answer:
        """Credentials for the files of a table: none, unless the server was started to give them."""
        return self._access.credentials(self._catalog.load(call.table).metadata, call)

    def sign(self, call: Call) -> Answer:
        """The signature of a request for a file of a table."""
        return self._access.sign(self._catalog.load(call.table).metadata, call)

    def metrics(self, call: Call) -> Answer:
        """A report of a client about a scan or a commit. It is checked and counted, not kept."""
        call.document().string("report-type")
        self._catalog.load(call.table)
        return NOTHING

    def _described(self, name: TableName, state: TableState, call: Call) -> Answer:
        return self._answered(name, state, self._access.fields(name, state.metadata, call), _form(call))

    def _answered(self, name: TableName, state: TableState, fields: Mapping[str, Any], form: str = "all") -> Answer:
        """A table as the protocol has it, and further fields. Nothing here can fail: a change may have been made."""
        document: dict[str, Any] = {
            "metadata-location": state.metadata_location or None,
            "metadata": msgspec.Raw(self._known.encoded(name, state, form, _of_refs if form == "refs" else _whole)),
            **fields,
        }
        headers = {"etag": _etag(state, form)} if state.metadata_location else {}
        return answer_json(document, headers=headers)


def named(names: tuple[TableName, ...]) -> list[dict[str, Any]]:
    """Names as the protocol has them."""
    return [{"namespace": list(name.namespace), "name": name.name} for name in names]


def identifier_in_namespace(call: Call, name: str) -> TableName:
    """A name of the body in the namespace of the path. Raises ``InvalidInput`` for a name that cannot exist."""
    return Call(path={**call.path, "table": name}).table


@contextmanager
def naming_both(source: TableName, target: TableName) -> Iterator[None]:
    """Let the error for a name that exists tell both names."""
    try:
        yield
    except AlreadyExists as error:
        there = str(error.facts.get("there", "table")).capitalize()
        raise AlreadyExists(f"Cannot rename {source} to {target}. {there} already exists") from error


def renaming(call: Call) -> tuple[TableName, TableName]:
    """The old and the new name in a request to rename. Raises ``InvalidInput``."""
    document = call.document()
    return identifier_in(document.object("source")), identifier_in(document.object("destination"))


def _form(call: Call) -> str:
    form = call.query.get("snapshots", "all")
    if form not in _FORMS:
        raise InvalidInput(f"cannot load snapshots={form[:20]!r}: it takes all or refs")
    return form


def _has(call: Call, tag: str) -> bool:
    """Whether the client has the answer with this tag. Weak and strong tags are compared alike (RFC 9110, 13.1.2)."""
    known = (one.strip().removeprefix("W/") for one in call.headers.get("if-none-match", "").split(","))
    return any(one in ("*", tag.removeprefix("W/")) for one in known)


def _etag(state: TableState, form: str) -> str:
    digest = hashlib.sha256(f"{form}:{state.metadata_location}".encode()).hexdigest()[:32]
    return f'W/"{digest}"'


def _tagged(answer: Answer, call: Call) -> Answer:
    """An answer with credentials, or 304 if the client has it. New credentials are a new answer, with another tag."""
    tag = f'W/"{hashlib.sha256(answer.body).hexdigest()[:32]}"'
    if _has(call, tag):
        return Answer(status=304, headers={"etag": tag})
    return replace(answer, headers={**answer.headers, "etag": tag, "vary": _VARY})


def _whole(metadata: TableMetadata) -> TableMetadata:
    return metadata


def _of_refs(metadata: TableMetadata) -> TableMetadata:
    """The table with only those snapshots that a branch or tag names."""
    wanted = {ref.snapshot_id for ref in metadata.all_refs.values()}
    found = (metadata.snapshot(id_) for id_ in wanted)
    kept = sorted((one for one in found if one is not None), key=lambda one: (one.sequence_number, one.timestamp_ms))
    return replace(metadata, snapshots=tuple(kept))

"""Commits: all requirements first, then the updates in their order, then one metadata file and one swap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from esker.catalogs.rest.apply_updates import failed_requirement
from esker.catalogs.rest.metadata_updates import Document
from esker.errors import AlreadyExists, EskerError, InvalidInput, NoSuchTable, OutcomeUnknown
from esker.iceberg.json_document import JsonObject
from esker.model.table_names import TableName
from esker.ports.catalog import (
    Accepted,
    AllAccepted,
    AllUnanswered,
    Catalog,
    ChangesTogether,
    NewTable,
    Rejected,
    SwapAll,
    TableState,
    TableSwap,
    Unanswered,
)
from esker.serve.call import REQUEST
from esker.serve.checked_updates import known_version, with_updates
from esker.serve.error_answers import CommitRefused
from esker.serve.known_tables import KnownTables
from esker.serve.new_tables import DEFAULT_VERSION, blank_table
from esker.serve.store.check_places import Claim, Places, check_apart
from esker.tree.table_metadata import TableMetadata

SpecsInUse = Callable[[TableName, TableMetadata], Iterable[int]]
"""The ids of the partition specs by which the snapshots of a table have manifests."""
_ATTEMPTS = 20
_MOST_UPDATES = 10_000
_MOST_DEFINITIONS = 500
_DEFINITIONS = ("add-schema", "add-spec", "add-sort-order")
_REMOVE = "remove-snapshots"
_CREATE = "assert-create"
_FIELDS = {
    _CREATE: (),
    "assert-table-uuid": ("uuid",),
    "assert-ref-snapshot-id": ("ref",),
    "assert-last-assigned-field-id": ("last-assigned-field-id",),
    "assert-current-schema-id": ("current-schema-id",),
    "assert-last-assigned-partition-id": ("last-assigned-partition-id",),
    "assert-default-spec-id": ("default-spec-id",),
    "assert-default-sort-order-id": ("default-sort-order-id",),
}


@dataclass(frozen=True, slots=True)
class Commit:
    """What a client asks to change in one table."""

    name: TableName
    requirements: tuple[Document, ...]
    updates: tuple[JsonObject, ...]

    @classmethod
    def read(cls, name: TableName, document: JsonObject) -> Commit:
        """The commit in a request. Raises ``InvalidInput`` for a requirement that is not known, and for too many
        updates."""
        requirements = tuple(_requirement(one) for one in _all(document, "requirements", "requirement"))
        updates = tuple(_joined(_all(document, "updates", "update")))
        _check_number(requirements, updates)
        return cls(name, requirements, updates)

    @property
    def creates(self) -> bool:
        """Whether the commit finishes a staged create."""
        return any(one["type"] == _CREATE for one in self.requirements)

    def check(self, metadata: TableMetadata | None) -> None:
        """Raise ``CommitRefused`` if the table does not meet a requirement."""
        failed = failed_requirement(metadata, self.requirements)
        if failed is None:
            return
        raise CommitRefused(f"Requirement failed: {_failure(failed, metadata)}; load table {self.name} again")


def _failure(requirement: Document, metadata: TableMetadata | None) -> str:
    """What is not as required, in the words of Iceberg's own catalogs: some clients read them."""
    if requirement["type"] == _CREATE:
        return "table already exists"
    if metadata is None:
        return "table does not exist"
    match requirement["type"]:
        case "assert-table-uuid":
            return f"UUID does not match: expected {metadata.uuid} != {requirement['uuid']}"
        case "assert-ref-snapshot-id":
            ref, wanted = metadata.all_refs.get(requirement["ref"]), requirement["snapshot-id"]
            if ref is None:
                return f"branch or tag {requirement['ref']} is missing, expected {wanted}"
            if wanted is None:
                return f"{ref.kind.value} {requirement['ref']} was created concurrently"
            return f"{ref.kind.value} {requirement['ref']} has changed: expected id {wanted} != {ref.snapshot_id}"
        case kind:
            words, name, now = _IDS[kind](metadata)
            return f"{words} changed: expected id {requirement[name]} != {now}"


_IDS: Mapping[str, Callable[[TableMetadata], tuple[str, str, int]]] = {
    "assert-last-assigned-field-id": lambda table: (
        "last assigned field id",
        "last-assigned-field-id",
        table.last_column_id,
    ),
    "assert-current-schema-id": lambda table: ("current schema", "current-schema-id", table.current_schema_id),
    "assert-last-assigned-partition-id": lambda table: (
        "last assigned partition id",
        "last-assigned-partition-id",
        table.last_partition_id,
    ),
    "assert-default-spec-id": lambda table: ("default partition spec", "default-spec-id", table.default_spec_id),
    "assert-default-sort-order-id": lambda table: (
        "default sort order",
        "default-sort-order-id",
        table.default_sort_order_id,
    ),
}


def _all(document: JsonObject, name: str, singular: str) -> list[JsonObject]:
    document.items(name)  # raises if it is missing
    return list(document.objects(name, singular))


def _joined(updates: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """The updates. Those that remove snapshots one after the other are one: some clients send one for each snapshot,
    and each would walk the whole history."""
    for is_removal, group in groupby(updates, lambda one: one.string("action") == _REMOVE):
        if is_removal:
            ids = [id_ for one in group for id_ in one.items("snapshot-ids")]
            yield JsonObject(REQUEST, "an update of the body", {"action": _REMOVE, "snapshot-ids": ids})
        else:
            yield from group


def _check_number(requirements: Sequence[Document], updates: Sequence[JsonObject]) -> None:
    """Raise ``InvalidInput`` for a request that would keep the server busy for minutes: each update copies a part of
    the table."""
    definitions = sum(one.string("action") in _DEFINITIONS for one in updates)
    for number, most, what in (
        (len(requirements), _MOST_UPDATES, "requirements"),
        (len(updates), _MOST_UPDATES, "updates"),
        (definitions, _MOST_DEFINITIONS, "new schemas, partition specs and sort orders"),
    ):
        if number > most:
            raise InvalidInput(f"cannot commit {number} {what} at once: at most {most}; send several commits")


def _requirement(document: JsonObject) -> Document:
    kind = document.string("type")
    if kind not in _FIELDS:
        raise InvalidInput(f"cannot check the requirement {kind!r}: it is not known", requirement=kind)
    for name in _FIELDS[kind]:
        document.string(name) if name in ("uuid", "ref") else document.integer(name)
    return {**document.fields, "snapshot-id": document.integer_or_none("snapshot-id")}


class Commits:
    """Applies commits to the tables of a catalog."""

    def __init__(
        self,
        catalog: Catalog,
        places: Places,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        *,
        specs_in_use: SpecsInUse,
    ) -> None:
        self._catalog = catalog
        self._places = places
        self._specs_in_use = specs_in_use
        self._now_ms = now_ms
        self.known = KnownTables(catalog)
        self._locks = _Locks()

    def apply(self, commit: Commit) -> TableState:
        """Commit to one table, and return its new state.

        Raises ``CommitRefused`` if a requirement is not met, ``InvalidInput`` for a wrong update, ``NoSuchTable``, and
        ``OutcomeUnknown`` if the catalog did not say whether the commit was made.
        """
        with self._locks.held(commit.name):
            return self._create(commit) if commit.creates else self._apply(commit)

    def _apply(self, commit: Commit) -> TableState:
        for _ in range(_ATTEMPTS):
            base = self.known.load(commit.name)
            commit.check(base.metadata)
            if not commit.updates:
                return base
            new, claims = self._updated(base.metadata, commit)
            with self._places.held(claims):
                outcome = self._catalog.swap(commit.name, base, new)
            match outcome:
                case Accepted(state):
                    self.known.keep(commit.name, state)
                    return state
                case Rejected():
                    continue  # another commit came first: it may still be compatible with this one
                case Unanswered(why, location):
                    return self._found(commit.name, location, why)
        raise CommitRefused(f"cannot commit to {commit.name}: other writers came first {_ATTEMPTS} times; try again")

    def apply_all(self, commits: list[Commit]) -> None:
        """Commit to several tables, to all or to none. Raises as ``apply`` does."""
        if len({commit.name for commit in commits}) != len(commits):
            raise InvalidInput("cannot commit: one table is named twice")
        if any(commit.creates for commit in commits) and not isinstance(self._catalog, ChangesTogether):
            raise InvalidInput("cannot create a table together with commits to others; create it first")
        self._catalog.check_swaps_all()
        with self._locks.held(*(commit.name for commit in commits)):
            self._apply_all(commits)

    def _apply_all(self, commits: list[Commit]) -> None:
        for _ in range(_ATTEMPTS):
            changes = [commit for commit in commits if not commit.creates]
            bases = [self._catalog.load(commit.name) for commit in changes]
            for commit, base in zip(changes, bases, strict=True):
                commit.check(base.metadata)
            claims: list[Claim] = []
            swaps: list[TableSwap] = []
            for commit, base in zip(changes, bases, strict=True):
                if commit.updates:
                    updated, places = self._updated(base.metadata, commit)
                    swaps.append(TableSwap(commit.name, base, updated))
                    claims += places
            new: list[NewTable] = []
            for commit in commits:
                if commit.creates:
                    first, places = self._first(commit)
                    new.append(NewTable(commit.name, first))
                    claims += places
            check_apart(claims)
            if not swaps and not new:
                return
            with self._places.held(claims):
                outcome = self._changed(swaps, new)
            match outcome:
                case AllAccepted():
                    return
                case Rejected():
                    continue
                case AllUnanswered(why, locations):
                    for name in (*(swap.name for swap in swaps), *(table.name for table in new)):
                        self._found(name, locations.get(name), why)  # one without a location cannot be found
                    return
        raise CommitRefused(f"cannot commit: other writers came first {_ATTEMPTS} times; try again")

    def _changed(self, swaps: list[TableSwap], new: list[NewTable]) -> SwapAll:
        if not new:
            return self._catalog.swap_all(swaps)
        assert isinstance(self._catalog, ChangesTogether)  # it was checked first
        with _refusing_names():
            return self._catalog.change_all(swaps, new)

    def _updated(self, base: TableMetadata, commit: Commit) -> tuple[TableMetadata, list[Claim]]:
        """The table after a commit, and the places that it gets."""
        check_location = partial(self._check_location, commit.name, base)
        new = with_updates(base, commit.updates, now_ms=self._now_ms(), check_location=check_location)
        self._check_specs(commit.name, new, base)
        return new, self._places.check_table(commit.name, new, base)

    def _check_specs(self, name: TableName, new: TableMetadata, base: TableMetadata) -> None:
        """Raise ``InvalidInput`` if a partition spec was removed by which a snapshot has manifests."""
        gone = set(base.spec_by_id) - set(new.spec_by_id)
        for spec_id in self._specs_in_use(name, new) if gone else ():
            if spec_id in gone:
                raise InvalidInput(
                    f"cannot remove partition spec {spec_id} of {name}: a snapshot has files with it; remove those "
                    "snapshots first"
                )

    def _create(self, commit: Commit) -> TableState:
        metadata, claims = self._first(commit)
        with self._places.held(claims), _refusing_names():
            return self._catalog.create(commit.name, metadata)

    def _first(self, commit: Commit) -> tuple[TableMetadata, list[Claim]]:
        """The first metadata of a table that a commit creates, and its places. Raises as ``apply`` does."""
        try:
            commit.check(self._catalog.load(commit.name).metadata)
        except NoSuchTable:
            commit.check(None)
        self._catalog.namespace_properties(commit.name.namespace)
        metadata, claims = self._updated(blank_table(_first_version(commit)), commit)
        schemas = tuple(schema for schema in metadata.schemas if schema.schema_id >= 0)
        return replace(metadata, schemas=schemas), claims

    def _found(self, name: TableName, location: str | None, why: str) -> TableState:
        """The table, if the swap that was not answered can be seen in it. Raises ``OutcomeUnknown`` if not."""
        try:
            state = self._catalog.load(name)
        except EskerError as error:  # whatever it is: the swap may have been made
            raise OutcomeUnknown(
                f"the catalog did not say whether the commit to {name} was made: {why}; it could not be loaded "
                f"afterwards: {error.message}"
            ) from error
        files = {state.metadata_location, *(entry.metadata_file for entry in state.metadata.metadata_log)}
        if location is None or location not in files:
            raise OutcomeUnknown(f"the catalog did not say whether the commit to {name} was made: {why}")
        return state

    def _check_location(self, name: TableName, table: TableMetadata, location: str, what: str) -> None:
        if table.location and location.startswith(f"{table.location}/") and ".." not in location.split("/"):
            return
        try:
            self._catalog.check_place(name, replace(blank_table(2), location=location))
        except InvalidInput as error:
            why = error.message.partition(" as the table's location: ")[2] or error.message
            raise InvalidInput(f"cannot use {location} as {what}: {why}", location=location) from error
        self._places.check(name, location, what)


def _first_version(commit: Commit) -> int:
    """The format version that a new table begins with: the first that its updates ask for. Raises ``InvalidInput``."""
    asked = (one for one in commit.updates if one.string("action") == "upgrade-format-version")
    first = next(asked, None)
    return DEFAULT_VERSION if first is None else known_version(first)


@contextmanager
def _refusing_names() -> Iterator[None]:
    """A table that exists where one was to be created is a requirement that is not met."""
    try:
        yield
    except AlreadyExists as error:
        if error.facts.get("there") == "view":
            raise
        raise CommitRefused("Requirement failed: table already exists") from error


class _Locks:
    """One of a fixed number of locks for each table, so that commits of this process to one table do not collide."""

    def __init__(self, number: int = 64) -> None:
        self._locks = tuple(threading.Lock() for _ in range(number))

    @contextmanager
    def held(self, *names: TableName) -> Iterator[None]:
        with ExitStack() as stack:
            for at in sorted({hash(name) % len(self._locks) for name in names}):
                stack.enter_context(self._locks[at])
            yield

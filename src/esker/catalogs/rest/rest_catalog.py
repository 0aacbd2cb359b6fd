"""Tables of a REST catalog; keeps the contract of ``ports.catalog.Catalog``.

A swap is sent as updates with requirements. The server compares what the requirements name: the table's uuid, refs,
ids of schemas, specs and orders. It does not compare properties. Where the requirements leave out a part of the change,
the table is looked at before the change is sent. Nessie compares the whole table; ``nessie`` says how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from esker.catalogs.metadata_files import check_same_table, codec_of, with_log
from esker.catalogs.refusals import (
    Kind,
    NoViews,
    checked_name,
    checked_namespace,
    dotted,
    missing,
    no_such_namespace,
    table_exists,
)
from esker.catalogs.rest.commits import TableCommit, check_transactions, commit_table, commit_tables, identifier
from esker.catalogs.rest.files import RestFiles
from esker.catalogs.rest.loaded import KnownVersions, LoadedTable, loaded_table
from esker.catalogs.rest.namespaces import RestNamespaces
from esker.catalogs.rest.nessie import (
    check_name,
    check_updates,
    commit_id,
    is_address,
    is_in_history,
    is_nessie,
    is_same,
    keep_own,
    required_commit_id,
)
from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.scans.reports import Reports
from esker.catalogs.rest.scans.rest_scans import MODE, RestScanService
from esker.catalogs.rest.server_errors import error_in
from esker.catalogs.rest.service import RestService
from esker.catalogs.rest.transport import Answer
from esker.catalogs.rest.views import RestViews
from esker.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    EskerError,
    InvalidInput,
    NotFound,
    OutcomeUnknown,
    Unsupported,
)
from esker.iceberg.metadata.partition_and_sort import encode_partition_spec, encode_sort_order
from esker.iceberg.metadata.schema import encode_schema
from esker.model.table_names import Namespace, TableName
from esker.ports.catalog import (
    Accepted,
    AllAccepted,
    AllUnanswered,
    Rejected,
    Swap,
    SwapAll,
    TableState,
    TableSwap,
    Unanswered,
    Verdict,
    ViewCatalog,
)
from esker.ports.scan_service import ScanService
from esker.ports.storage import Storage
from esker.tree.table_metadata import TableMetadata

_SERVERS_CHOICE = "s3://chosen-by-the-catalog"
_PROBE = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "c", "type": "int", "required": False}]}


class RestCatalog:
    """The catalog behind one server, or one warehouse of it."""

    def __init__(self, service: RestService, files: RestFiles) -> None:
        self._service = service
        self._files = files
        self._reports = Reports(service)
        self._namespaces = RestNamespaces(service)
        self._versions = KnownVersions()
        self._modes: dict[TableName, str] = {}  # who plans the scans of a table, where the server says so

    # ------------------------------------------------------------ namespaces

    def namespaces(self) -> tuple[Namespace, ...]:
        return self._namespaces.all()

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        return self._namespaces.properties(namespace)

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        self._namespaces.create(namespace, properties)

    def update_namespace_properties(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        self._namespaces.update(namespace, updates, removals)

    def drop_namespace(self, namespace: Namespace) -> None:
        self._namespaces.drop(namespace, self._held)

    def _held(self, namespace: Namespace) -> list[str]:
        found = [str(name) for name in self.tables(namespace)]
        found += [str(name) for name in self.view_catalog().views(namespace)]
        return found + [dotted(child) for child in self._namespaces.below(namespace)]

    @property
    def tended_by(self) -> str | None:
        """The service that removes files of its tables itself."""
        return self._service.tended_by

    def has_namespace(self, namespace: Namespace) -> bool:
        """Whether there is such a namespace."""
        return self._namespaces.has(namespace)

    # ------------------------------------------------------------ tables

    def tables(self, namespace: Namespace) -> tuple[TableName, ...]:
        doing = f"list tables of {dotted(checked_namespace(namespace))}"
        return self.listed(Operation.LIST_TABLES, namespace, doing)

    def listed(self, operation: Operation, namespace: Namespace, doing: str) -> tuple[TableName, ...]:
        """Names in a list of tables or views, sorted; ``NoSuchNamespace`` where there is none."""
        found = self._service.pages(operation, namespace, doing, "identifiers")
        names = [] if found is None else [_name(one, self._service.address) for one in found]
        # some servers answer a list of a namespace that is not there with nothing
        if found is None or (not names and not self.has_namespace(namespace)):
            raise no_such_namespace(namespace)
        return tuple(sorted(name for name in names if name.namespace == namespace))

    def location_for(self, name: TableName) -> str:
        base = self.namespace_properties(self.checked(name).namespace).get("location")
        if base:
            self._files.check_place(base, f"the location of namespace {dotted(name.namespace)}")
        if self._stages:
            return self._free(self._staged(name).state.metadata.location)
        return f"{_SERVERS_CHOICE}/{dotted(name.namespace)}/{name.name}"  # a creation does not send it

    def _free(self, home: str) -> str:
        """The location, or one beside it where another table has files: a server may give that of a renamed table."""
        try:
            taken = next(iter(self._files.list(home)), None) is not None
        except EskerError:  # credentials that do not allow to list
            taken = False
        return f"{home}-{uuid4().hex[:12]}" if taken else home

    @property
    def _stages(self) -> bool:
        """Whether a table can be planned on the server before it is made; S3 Tables and Glue refuse it."""
        return self._service.settings.text("rest.signing-name") not in ("s3tables", "glue")

    def _staged(self, name: TableName) -> LoadedTable:
        """The place of a table that is not made: the server chooses it, and vends credentials for it."""
        doing = f"plan table {name}"
        body = {"name": name.name, "schema": _PROBE, "stage-create": True, "properties": {}}
        answer = self._service.change(Operation.CREATE_TABLE, name.namespace, body, doing)
        if answer.status == 404:
            raise no_such_namespace(name.namespace)
        if answer.status == 409:  # the creation itself will say so; until then only the place matters
            return self._staged(TableName(name.namespace, f"{name.name}-{uuid4().hex[:12]}"))
        return self._known(name, answer)

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        doing = f"load table {self.checked(name)}"
        etag = None if known is None else self._versions.of(name, known).etag
        headers = {} if etag is None else {"If-None-Match": etag}
        answer = self._service.ask(Operation.LOAD_TABLE, name, doing, headers=headers)
        if answer.status == 304:
            if known is None:
                raise Corrupt(f"the answer of {self._service.address}", f"asked to {doing}, it says: unchanged")
            return known
        if answer.status == 404:
            raise self._missing(name)
        loaded = self._known(name, answer)
        if known is None or not is_same(known, loaded.state):
            return loaded.state
        self._versions.remember(name, known.metadata_location, loaded)
        return known

    def check_place(self, name: TableName, metadata: TableMetadata) -> None:
        self.checked(name)
        self._check_stages(name)
        self._files.check_table(metadata)

    def create(self, name: TableName, metadata: TableMetadata) -> TableState:
        self._check_new(name, metadata)
        if not self._stages:
            return self._create_plainly(name, metadata)
        outcome = commit_table(self._service, TableCommit.of(name, None, metadata))
        match outcome:
            case LoadedTable():
                return self._committed(name, outcome)
            case Rejected():
                raise self._taken(name)
            case Unanswered(why):
                return self._found_after(name, metadata, why)

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        check_same_table(base.metadata, new)
        self._files.check_table(new, base.metadata)
        codec_of(new.properties)
        with_log(base, new)  # refuses a setting that no server could follow
        commit = self._commit(name, base, new)
        at = self._commit_id(name, base)
        if not commit.updates or not (at or commit.compares_all):
            now = self._now(name, base)
            if now is None or not is_same(now, base):
                return Rejected(_moved(name, now))
            if not commit.updates:
                return Accepted(base)
        outcome = commit_table(self._service, commit, at=at, verdict=self._verdict(commit, base))
        if not isinstance(outcome, LoadedTable):
            return outcome
        state = self._committed(name, outcome)
        self._reports.commit(name, base.metadata, state.metadata)
        return Accepted(state)

    def check_swaps_all(self) -> None:
        check_transactions(self._service, "commit to several tables")

    def swap_all(self, swaps: Sequence[TableSwap]) -> SwapAll:
        for swap in swaps:
            check_same_table(swap.base.metadata, swap.new)
            self._files.check_table(swap.new, swap.base.metadata)
        commits = [self._commit(one.name, one.base, one.new) for one in swaps]
        at = ""
        for one, commit in zip(swaps, commits, strict=True):
            if commit.compares_all and not self._is_nessie:
                continue
            # on Nessie every table at one version of the catalog, with which the commit is then compared
            now = self._loaded_at(one.name, at) if self._is_nessie else self._now(one.name, one.base)
            if now is None or not is_same(now, one.base):
                return Rejected(_moved(one.name, now))
            at = at or self._commit_id(one.name, now)
        verdicts = {one.name: self._verdict(commit, one.base) for one, commit in zip(swaps, commits, strict=True)}
        match outcome := commit_tables(self._service, commits, at=at):
            case None:
                return self._all_now(commits, verdicts)
            case Unanswered(why):
                return AllUnanswered(why, verdicts=verdicts)
            case _:
                return outcome

    def _all_now(self, commits: Sequence[TableCommit], verdicts: Mapping[TableName, Verdict]) -> SwapAll:
        """The tables after a commit to several, whose answer holds none of them. Success needs proof: Iceberg's own
        server reports success for a table that another writer changed meanwhile, and leaves this commit out."""
        try:
            states = tuple(self.load(commit.name) for commit in commits)
            found = zip(commits, states, strict=True)
            lost = [str(one.name) for one, now in found if one.adds_snapshots and verdicts[one.name](now) is not True]
        except EskerError as error:
            why = f"the server reported success, but the tables cannot be loaded: {error}"
            return AllUnanswered(why, verdicts=verdicts)
        if lost:
            why = f"the server reported success, but the new snapshot is not in {', '.join(lost)}"
            return AllUnanswered(why, verdicts=verdicts)
        return AllAccepted(states)

    def register(self, name: TableName, metadata_location: str) -> TableState:
        doing = f"register table {self.checked(name)}"
        self._files.check(metadata_location)
        self._check_free(name)
        body = {"name": name.name, "metadata-location": metadata_location, "overwrite": False}
        answer = self._service.change(Operation.REGISTER_TABLE, name.namespace, body, doing)
        if answer.status == 404:
            raise NotFound(f"cannot {doing}: {error_in(answer, self._service.secrets)}", file=metadata_location)
        if answer.status == 409:
            raise self._taken(name)
        return self._known(name, answer).state

    def unregister(self, name: TableName) -> TableState:
        doing = f"unregister table {self.checked(name)}"
        answer = self._service.change(Operation.UNREGISTER_TABLE, name, None, doing)
        if answer.status == 404:
            raise self._missing(name)
        self._raise_conflict(answer, doing)
        return loaded_table(answer, f"the answer of {self._service.address} for {name}").state

    def drop(self, name: TableName) -> None:
        purges = "true" if self._service.settings.text("rest.signing-name") == "s3tables" else "false"
        answer = self.dropped(Operation.DROP_TABLE, name, Kind.TABLE, {"purgeRequested": purges})
        self._raise_conflict(answer, f"drop table {name}")

    def dropped(self, operation: Operation, name: TableName, kind: Kind, query: Mapping[str, str]) -> Answer:
        """Drop a table or a view. Raises ``NotFound`` where there is none."""
        doing = f"drop {kind.word} {self.checked(name)}"
        try:
            answer = self._service.change(operation, name, None, doing, needs_body=False, query=query)
        except InvalidInput:
            there = self.kind_of(name)
            if there is kind:
                raise
            raise missing(name, kind, there) from None  # Nessie answers with 400 where the name is of the other kind
        if answer.status == 404:
            raise missing(name, kind, self.kind_of(name))
        return answer

    def rename(self, old: TableName, new: TableName) -> None:
        self.renamed(Operation.RENAME_TABLE, old, new, Kind.TABLE)

    def renamed(self, operation: Operation, old: TableName, new: TableName, kind: Kind) -> None:
        """Give a table or a view another name."""
        doing = f"rename {self.checked(old)} to {self.checked(new)}"
        self._service.require(operation, doing)
        if not self.has_namespace(new.namespace):
            raise no_such_namespace(new.namespace)
        there = self.kind_of(new)
        if there is not None and self.kind_of(old) is kind:
            raise table_exists(new, there, new=kind)
        body = {"source": identifier(old), "destination": identifier(new)}
        answer = self._service.change(operation, None, body, doing, needs_body=False)
        if answer.status == 404:
            raise missing(old, kind, self.kind_of(old))
        if answer.status == 409:
            raise table_exists(new, self.kind_of(new) or kind, new=kind)

    def storage(self) -> Storage:
        return self._files

    def scan_service(self, name: TableName) -> ScanService:
        """What the server does for scans of a table: it may plan them, and may want reports."""
        said = self._modes.get(name)
        return RestScanService(service=self._service, files=self._files, reports=self._reports, name=name, said=said)

    def view_catalog(self) -> ViewCatalog:
        if not self._service.offers(Operation.LOAD_VIEW):
            return NoViews(self, f"the REST catalog at {self._service.address} does not offer views")
        return RestViews(self._service, self._files, self)

    # ------------------------------------------------------------ what the answers come to

    def kind_of(self, name: TableName) -> Kind | None:
        """What a name is in the catalog; None where it is free."""
        exists = self._service.offers(Operation.TABLE_EXISTS)
        table = Operation.TABLE_EXISTS if exists else Operation.LOAD_TABLE
        if self._service.ask(table, name, f"look for {name}").is_success:
            return Kind.TABLE
        exists = self._service.offers(Operation.VIEW_EXISTS)
        view = Operation.VIEW_EXISTS if exists else Operation.LOAD_VIEW
        if self._service.offers(view) and self._service.ask(view, name, f"look for {name}").is_success:
            return Kind.VIEW
        return None

    def _check_stages(self, name: TableName) -> None:
        if not self._stages:
            raise Unsupported(
                f"cannot create table {name} together with its rows: the REST catalog at {self._service.address} "
                "cannot stage a table; create it first, then append to it",
                feature="creating a table with its rows",
            )

    def _create_plainly(self, name: TableName, metadata: TableMetadata) -> TableState:
        """For servers without staged creation: the table first, then what a plain creation cannot say."""
        if metadata.snapshots:
            self._check_stages(name)
        doing = f"create table {name}"
        body: dict[str, Any] = {
            "name": name.name,
            "schema": encode_schema(metadata.schema),
            "partition-spec": encode_partition_spec(metadata.spec),
            "write-order": encode_sort_order(metadata.sort_order),
            "stage-create": False,
            "properties": {**metadata.properties, "format-version": str(metadata.format_version)},
        }
        answer = self._service.change(Operation.CREATE_TABLE, name.namespace, body, doing)
        if answer.status == 404:
            raise no_such_namespace(name.namespace)
        if answer.status == 409:
            raise self._taken(name)
        return self._known(name, answer).state

    def _check_new(self, name: TableName, metadata: TableMetadata) -> None:
        """Refuse before anything is sent what would be refused after."""
        self.checked(name)
        codec_of(metadata.properties)
        self._files.check_table(metadata)
        self._check_free(name)

    def _check_free(self, name: TableName) -> None:
        if not self.has_namespace(name.namespace):
            raise no_such_namespace(name.namespace)
        if (there := self.kind_of(name)) is not None:
            raise table_exists(name, there)

    def _found_after(self, name: TableName, metadata: TableMetadata, why: str) -> TableState:
        """The table, if a creation that got no answer made it: nobody else has its uuid."""
        try:
            state = self.load(name)
        except NotFound:
            state = None
        if state is not None and metadata.uuid is not None and state.metadata.uuid == metadata.uuid:
            return state
        raise OutcomeUnknown(
            f"cannot tell whether table {name} was created: {why}; every file was kept; look for the table before you "
            "try again",
            table=str(name),
        )

    def _now(self, name: TableName, known: TableState) -> TableState | None:
        try:
            return self.load(name, known)
        except NotFound:
            return None

    @property
    def _is_nessie(self) -> bool:
        return is_nessie(self._service.settings)

    def _commit(self, name: TableName, base: TableState, new: TableMetadata) -> TableCommit:
        if not self._is_nessie:
            return TableCommit.of(checked_name(name), base.metadata, new)
        commit = TableCommit.of(self.checked(name), base.metadata, keep_own(base.metadata, new))
        check_updates(name, commit.updates)
        return commit

    def checked(self, name: TableName) -> TableName:
        """The name, if this server can have a table or a view of that name. Raises ``InvalidInput``."""
        checked_name(name)
        if self._is_nessie:
            check_name(name)
        return name

    def _commit_id(self, name: TableName, base: TableState) -> str:
        """The version of Nessie's catalog that holds ``base``; empty for other servers."""
        if not self._is_nessie:
            return ""
        return self._versions.of(name, base).commit_id or required_commit_id(base.metadata.properties, f"table {name}")

    def _verdict(self, commit: TableCommit, base: TableState) -> Verdict:
        """Says after a lost answer whether the change is in the table."""
        if not self._is_nessie:
            return commit.is_in
        return lambda now: is_in_history(
            now,
            is_ours=lambda state: commit.is_in(state) is True,
            is_base=lambda state: is_same(state, base),
            load_at=lambda version: self._loaded_at(commit.name, version),
        )

    def _loaded_at(self, name: TableName, version: str) -> TableState | None:
        """The table at a version of Nessie's catalog, the newest where none is named; None where it is not there."""
        answer = self._service.ask(Operation.LOAD_TABLE, name, f"load table {name}", at=version)
        return None if answer.status == 404 else self._known(name, answer).state

    def _committed(self, name: TableName, loaded: LoadedTable) -> TableState:
        """The version that a commit made. Nessie answers with an address of its own; the file is asked for."""
        state = self._admitted(name, loaded).state
        version = commit_id(state.metadata.properties)
        if version is None or not is_address(state):
            return state
        try:
            return self._loaded_at(name, version) or state
        except EskerError:  # the commit is made
            return state

    def _known(self, name: TableName, answer: Answer) -> LoadedTable:
        return self._admitted(name, loaded_table(answer, f"the answer of {self._service.address} for {name}"))

    def _admitted(self, name: TableName, loaded: LoadedTable) -> LoadedTable:
        """Let the table's files be used, and remember this version."""
        self._files.admit(name, loaded, self._service)
        if MODE in loaded.config:
            self._modes[name] = loaded.config[MODE]
        self._versions.remember(name, loaded.state.metadata_location, loaded)
        return loaded

    def _missing(self, name: TableName) -> NotFound:
        return missing(name, Kind.TABLE, self.kind_of(name))

    def _taken(self, name: TableName) -> AlreadyExists:
        return table_exists(name, self.kind_of(name) or Kind.TABLE)

    def _raise_conflict(self, answer: Answer, doing: str) -> None:
        if answer.status == 409:
            raise Conflict(f"cannot {doing}: {error_in(answer, self._service.secrets)}")


def _moved(name: TableName, now: TableState | None) -> str:
    if now is None:
        return f"table {name} was dropped or renamed"
    return f"table {name} has moved on to {now.metadata_location}"


def _name(listed: Any, address: str) -> TableName:
    try:
        found = msgspec.convert(listed, dict[str, Any])
        return TableName(tuple(msgspec.convert(found["namespace"], list[str])), msgspec.convert(found["name"], str))
    except (msgspec.ValidationError, KeyError, InvalidInput):
        raise Corrupt(f"the answer of {address}", "an identifier needs 'namespace' and 'name'") from None

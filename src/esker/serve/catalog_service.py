"""The REST catalog without HTTP: from a request as data to its answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from esker.catalogs.pointer_catalog import PointerCatalog
from esker.catalogs.rest.operations import KEYED, Operation
from esker.catalogs.sql_pointers import SqlPointers
from esker.catalogs.sql_request_log import SqlRequestLog
from esker.errors import NoSuchNamespace, NoSuchTable
from esker.model.table_names import Namespace, TableName
from esker.ports.catalog import Catalog
from esker.serve.access import EVERYONE, Caller, Role, Tokens, role_for
from esker.serve.apply_commits import Commits
from esker.serve.call import NOTHING, Answer, Call, answer_json, decode_namespace, namespace_in
from esker.serve.error_answers import NotOffered, answer_to, error_answer
from esker.serve.find_operation import (
    ALL_OPERATIONS,
    CONFIG,
    LIST_DROPPED,
    LIST_FUNCTIONS,
    LOAD_FUNCTION,
    OWN_OPERATIONS,
    TOKEN,
    UNDROP,
    Found,
    OtherMethod,
    Routes,
)
from esker.serve.namespace_operations import Namespaces, paged
from esker.serve.replays import HEADER, LIFETIME, Replays
from esker.serve.scan_planning import ScanPlanning
from esker.serve.store.check_places import Places
from esker.serve.store.dropped_tables import DroppedTables
from esker.serve.store.table_access import TableAccess
from esker.serve.table_operations import Tables
from esker.serve.view_operations import Views
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from esker.lake import Lake

log = logging.getLogger("esker.serve")
audit = logging.getLogger("esker.serve.audit")

Handler = Callable[[Call], Answer]

_WHY_NOT = {
    Operation.SIGN_REQUEST.value: "this server signs no requests to a store; see --sign-requests",
    **dict.fromkeys(OWN_OPERATIONS, "this server keeps no dropped tables; see --keep-dropped"),
}
_EMPTY = (
    *(Operation.DROP_NAMESPACE.value, Operation.DROP_TABLE.value, Operation.RENAME_TABLE.value),
    *(Operation.COMMIT_TRANSACTION.value, Operation.DROP_VIEW.value, Operation.RENAME_VIEW.value),
)
_PLANNING = {Operation.PLAN_SCAN, Operation.CANCEL_PLAN, Operation.FETCH_TASKS}  # they change nothing
_REPLAYED = frozenset(one.value for one in KEYED - _PLANNING)
_NOBODYS = ("esker_is_ready",)  # a namespace to ask for


class Service:
    """All operations of the protocol over one lake: each is served, or refused by name.

    A server that shares its address with others does not keep plans: the next request may reach another one.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        tokens: Tokens | None = None,
        access: TableAccess | None = None,
        warehouses: Sequence[str] = (),
        keeps_plans: bool = True,
        keep_dropped_ms: int = 0,
    ) -> None:
        self._lake = lake
        self._keeps_plans = keeps_plans
        places = Places(lake.catalog)
        self._dropped = DroppedTables.of(lake, places, keep_dropped_ms)
        self._tokens = tokens
        self._warehouses = tuple(warehouses)
        self._routes = Routes((*ALL_OPERATIONS, *OWN_OPERATIONS))
        self._handlers, again = self._made(access or TableAccess({}), places)
        dropped = self._dropped
        self._own: dict[str, Handler] = {} if dropped is None else {LIST_DROPPED: dropped.list, UNDROP: dropped.undrop}
        kept = _request_log(lake.catalog)
        self._replays = None if kept is None else Replays(kept, again)

    def _made(self, access: TableAccess, places: Places) -> tuple[dict[str, Handler], dict[str, Handler]]:
        """How each operation is carried out, and how it is answered again after it was carried out."""
        catalog = self._lake.catalog
        commits = Commits(catalog, places, specs_in_use=self._specs_in_use)
        namespaces, tables, views = (
            Namespaces(catalog),
            Tables(self._lake, commits, places, access),
            Views(catalog, places),
        )
        self._tables = tables
        planning = ScanPlanning(self._lake) if self._keeps_plans else ScanPlanning(self._lake, files_at_once=None)
        again: dict[str, Handler] = {
            Operation.CREATE_NAMESPACE.value: namespaces.load_created,
            Operation.UPDATE_NAMESPACE.value: namespaces.updated_before,
            Operation.CREATE_TABLE.value: tables.load_created,
            Operation.REGISTER_TABLE.value: tables.load_created,
            Operation.UPDATE_TABLE.value: tables.load,
            Operation.UNREGISTER_TABLE.value: tables.unregistered_before,
            Operation.REPLACE_VIEW.value: views.load,
            Operation.REGISTER_VIEW.value: views.load_registered,
            **dict.fromkeys(_EMPTY, lambda call: NOTHING),
        }
        handlers: dict[str, Handler] = {
            CONFIG: self._config,
            TOKEN: self._token,
            LIST_FUNCTIONS: self._functions,
            LOAD_FUNCTION: self._function,
            Operation.LIST_NAMESPACES.value: namespaces.list,
            Operation.CREATE_NAMESPACE.value: namespaces.create,
            Operation.LOAD_NAMESPACE.value: namespaces.load,
            Operation.NAMESPACE_EXISTS.value: namespaces.exists,
            Operation.DROP_NAMESPACE.value: namespaces.drop,
            Operation.UPDATE_NAMESPACE.value: namespaces.update,
            Operation.LIST_TABLES.value: tables.list,
            Operation.CREATE_TABLE.value: tables.create,
            Operation.REGISTER_TABLE.value: tables.register,
            Operation.UNREGISTER_TABLE.value: tables.unregister,
            Operation.LOAD_TABLE.value: tables.load,
            Operation.UPDATE_TABLE.value: tables.update,
            Operation.DROP_TABLE.value: tables.drop if self._dropped is None else self._dropped.drop,
            Operation.TABLE_EXISTS.value: tables.exists,
            Operation.LOAD_CREDENTIALS.value: tables.credentials,
            Operation.RENAME_TABLE.value: tables.rename,
            Operation.REPORT_METRICS.value: tables.metrics,
            Operation.COMMIT_TRANSACTION.value: tables.commit_all,
            Operation.PLAN_SCAN.value: planning.plan,
            Operation.FETCH_PLAN.value: planning.fetch,
            Operation.CANCEL_PLAN.value: planning.cancel,
            Operation.FETCH_TASKS.value: planning.tasks,
            Operation.LIST_VIEWS.value: views.list,
            Operation.CREATE_VIEW.value: views.create,
            Operation.LOAD_VIEW.value: views.load,
            Operation.REPLACE_VIEW.value: views.replace,
            Operation.DROP_VIEW.value: views.drop,
            Operation.VIEW_EXISTS.value: views.exists,
            Operation.RENAME_VIEW.value: views.rename,
            Operation.REGISTER_VIEW.value: views.register,
        }
        if access.signs:
            handlers[Operation.SIGN_REQUEST.value] = tables.sign
        return handlers, again

    def _specs_in_use(self, name: TableName, metadata: TableMetadata) -> Iterator[int]:
        """The ids of the partition specs of all manifests. Reads every manifest list of the table."""
        reading = self._lake.table(str(name)).scan().table_format
        for snapshot in metadata.snapshots:
            yield from (manifest.spec_id for manifest in reading.manifests(metadata, snapshot))

    @property
    def is_open(self) -> bool:
        """Whether the server asks nobody for a token."""
        return self._tokens is None

    @property
    def refused(self) -> Mapping[str, str]:
        """The operations of the protocol that are answered with 406, and why."""
        return {one: _WHY_NOT[one] for one in ALL_OPERATIONS if one not in self._handlers}

    @property
    def served(self) -> tuple[str, ...]:
        """The operations that this server carries out, by the names under which it advertises them."""
        return tuple(self._handlers)

    def tidy(self) -> None:
        """Do what is due: remove the files of tables that were dropped long ago. Never raises."""
        if self._dropped is not None:
            self._dropped.tidy()

    def answer(self, method: str, raw_path: str, call: Call) -> Answer:
        """The answer to a request. Never raises."""
        try:
            found = self._routes.find(method, raw_path)
            if found is None:
                return _no_route(404, "no operation has this path")
            if isinstance(found, OtherMethod):
                return _no_route(405, "this path has other methods", {"allow": ", ".join(found.allowed)})
            call = replace(call, path=found.gaps)
            caller = self._caller(found.operation, call)
            caller.check(found.operation, _namespaces_of(call))
            return self._carried_out(found.operation, call, caller)
        except Exception as error:  # the server lives on; the log has the traceback
            return answer_to(error)

    def answer_at_once(self, method: str, raw_path: str, call: Call) -> Answer | None:
        """The answer of `answer`, if it is in memory and nothing has to be waited for. None otherwise. Never raises."""
        if method != "GET" or (self._tokens is not None and not self._tokens.are_at_hand):
            return None
        try:
            found = self._routes.find(method, raw_path)
            if not isinstance(found, Found) or found.operation != Operation.LOAD_TABLE.value:
                return None
            call = replace(call, path=found.gaps)
            self._caller(found.operation, call).check(found.operation, [call.namespace])
            return self._tables.load_at_once(call)
        except Exception:  # ``answer`` meets it again, and reports it
            return None

    def ready(self) -> Answer:
        """200 if the catalog behind the server answers, else 503. Never raises."""
        try:
            with suppress(NoSuchNamespace):
                self._lake.catalog.namespace_properties(_NOBODYS)
        except Exception as error:
            log.warning("the catalog does not answer: %s", error)
            return error_answer(503, "ServiceUnavailableException", "the catalog behind this server does not answer")
        return answer_json({"status": "ok"})

    def _caller(self, operation: str, call: Call) -> Caller:
        if self._tokens is None or operation == TOKEN:
            return EVERYONE
        return self._tokens.caller(call.headers.get("authorization"))

    def _carried_out(self, operation: str, call: Call, caller: Caller) -> Answer:
        handler = self._handlers.get(operation) or self._own.get(operation)
        if handler is None:
            raise NotOffered(f"cannot do this: {_WHY_NOT[operation]}", feature=operation)
        call = replace(call, sees=caller.sees, has=caller.has, may_write=caller.role >= Role.WRITE)
        try:
            if self._replays is not None and HEADER in call.headers and operation in _REPLAYED:
                answer = self._replays.answer(operation, call, caller.name, handler)
            else:
                answer = handler(call)
        except Exception as error:  # a change without a known outcome is in the log, too
            answer = answer_to(error)
        if role_for(operation) > Role.READ and operation != TOKEN:
            _record(operation, call, caller, answer)
        return answer

    def _config(self, call: Call) -> Answer:
        asked = call.query.get("warehouse")
        if asked and self._warehouses and asked.rstrip("/") not in self._warehouses:
            why = f"there is no warehouse {asked[:200]!r}; name {' or '.join(self._warehouses)}, or none"
            return error_answer(404, "NoSuchWarehouseException", why)
        document: dict[str, Any] = {
            "defaults": {},
            "overrides": {},
            "endpoints": [one for one in self._handlers if one not in (CONFIG, TOKEN)],
        }
        if self._replays is not None:
            document["idempotency-key-lifetime"] = LIFETIME
        return answer_json(document)

    def _token(self, call: Call) -> Answer:
        if self._tokens is None:
            raise NotOffered("cannot exchange credentials: this server has no tokens", feature="getToken")
        return self._tokens.exchange(call)

    def _functions(self, call: Call) -> Answer:
        self._lake.catalog.namespace_properties(call.namespace)
        return answer_json(paged("identifiers", [], call))

    def _function(self, call: Call) -> Answer:
        self._lake.catalog.namespace_properties(call.namespace)
        raise NoSuchTable(f"no function {call.path['function']}: this catalog has no functions")


def _request_log(catalog: Catalog) -> SqlRequestLog | None:
    """Where keys of requests are kept with their effects: in the catalog's own database. None if it has none."""
    pointers = catalog.pointers if isinstance(catalog, PointerCatalog) else None
    return SqlRequestLog(pointers.database) if isinstance(pointers, SqlPointers) else None


def _namespaces_of(call: Call) -> list[Namespace]:
    """The namespaces that a request names, in its path or its body."""
    if "namespace" in call.path:
        return [decode_namespace(call.path["namespace"])]
    if call.body.lstrip()[:1] != b"{":
        return []
    fields = call.document()
    named = [fields.object_or_none("source"), fields.object_or_none("destination")]
    named += [change.object("identifier") for change in fields.objects("table-changes", "table change")]
    named.append(fields if "namespace" in fields else None)
    return [namespace_in(one, "namespace") for one in named if one is not None]


def _record(operation: str, call: Call, caller: Caller, answer: Answer) -> None:
    """One line about a change, or about the attempt of one: who, what, where, and how it was answered."""
    fields = {
        "by": caller.name,
        "operation": operation,
        "of": [*(str(call.path[gap]) for gap in ("namespace", "table", "view") if gap in call.path), *_names_in(call)],
        "status": answer.status,
    }
    audit.info("%(operation)s %(of)s by %(by)s: %(status)d", fields, extra={"fields": fields})


def _names_in(call: Call) -> list[str]:
    """The names in the body of a request, as far as they can be read. A path with a whole name needs none."""
    if "table" in call.path or "view" in call.path:
        return []
    try:
        body = msgspec.json.decode(call.body) if call.body else {}
        named = [body, body.get("source"), body.get("destination")]
        named += [change.get("identifier") for change in body.get("table-changes", ())]
        found = [[*(one.get("namespace") or ()), one.get("name")] for one in named if isinstance(one, dict)]
        return [".".join(filter(None, parts)) for parts in found if any(parts)]
    except (msgspec.MsgspecError, AttributeError, TypeError, RecursionError):
        return []


def _no_route(status: int, why: str, headers: dict[str, str] | None = None) -> Answer:
    kind = "NoSuchRouteException" if status == 404 else "MethodNotAllowedException"
    return error_answer(status, kind, why, headers)

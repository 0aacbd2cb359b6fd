"""The REST catalog without HTTP: from a request as data to its answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esker.catalogs.pointer_catalog import PointerCatalog
from esker.catalogs.rest.operations import KEYED, Operation
from esker.catalogs.sql_pointers import SqlPointers
from esker.catalogs.sql_request_log import SqlRequestLog
from esker.errors import Corrupt, InvalidInput, NoSuchTable
from esker.model.table_names import Namespace
from esker.ports.catalog import Catalog
from esker.serve.access import EVERYONE, Caller, Role, Tokens, role_for
from esker.serve.apply_commits import Commits
from esker.serve.call import NOTHING, REQUEST, Answer, Call, answer_json, decode_namespace, namespace_in
from esker.serve.error_answers import NotOffered, answer_to, error_answer
from esker.serve.find_operation import ALL_OPERATIONS, CONFIG, LIST_FUNCTIONS, LOAD_FUNCTION, TOKEN, OtherMethod, Routes
from esker.serve.namespace_operations import Namespaces, paged
from esker.serve.replays import HEADER, LIFETIME, Replays
from esker.serve.scan_planning import ScanPlanning
from esker.serve.store.table_access import TableAccess
from esker.serve.table_operations import Tables
from esker.serve.view_operations import Views

if TYPE_CHECKING:
    from esker.lake import Lake

log = logging.getLogger("esker.serve")
audit = logging.getLogger("esker.serve.audit")

Handler = Callable[[Call], Answer]

_WHY_NOT = {Operation.SIGN_REQUEST.value: "this server signs no requests to a store; see --sign-requests"}
_EMPTY = (
    *(Operation.DROP_NAMESPACE.value, Operation.DROP_TABLE.value, Operation.RENAME_TABLE.value),
    *(Operation.COMMIT_TRANSACTION.value, Operation.DROP_VIEW.value, Operation.RENAME_VIEW.value),
)
_PLANNING = {Operation.PLAN_SCAN, Operation.CANCEL_PLAN, Operation.FETCH_TASKS}  # they change nothing
_REPLAYED = frozenset(one.value for one in KEYED - {Operation.UNREGISTER_TABLE} - _PLANNING)


class Service:
    """All operations of the protocol over one lake: each is served, or refused by name."""

    def __init__(
        self,
        lake: Lake,
        *,
        tokens: Tokens | None = None,
        access: TableAccess | None = None,
        warehouses: Sequence[str] = (),
    ) -> None:
        self._lake = lake
        self._tokens = tokens
        self._warehouses = tuple(warehouses)
        self._routes = Routes(ALL_OPERATIONS)
        self._handlers, again = self._made(access or TableAccess({}))
        kept = _request_log(lake.catalog)
        self._replays = None if kept is None else Replays(kept, again)

    def _made(self, access: TableAccess) -> tuple[dict[str, Handler], dict[str, Handler]]:
        """How each operation is carried out, and how it is answered again after it was carried out."""
        catalog = self._lake.catalog
        commits = Commits(catalog)
        namespaces, tables, views = Namespaces(catalog), Tables(self._lake, commits, access), Views(catalog)
        planning = ScanPlanning(self._lake)
        again: dict[str, Handler] = {
            Operation.CREATE_NAMESPACE.value: namespaces.load_created,
            Operation.UPDATE_NAMESPACE.value: namespaces.updated_before,
            Operation.CREATE_TABLE.value: tables.load_created,
            Operation.REGISTER_TABLE.value: tables.load_created,
            Operation.UPDATE_TABLE.value: tables.load,
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
            Operation.DROP_TABLE.value: tables.drop,
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

    @property
    def refused(self) -> Mapping[str, str]:
        """The operations of the protocol that are answered with 406, and why."""
        return {one: _WHY_NOT[one] for one in ALL_OPERATIONS if one not in self._handlers}

    @property
    def served(self) -> tuple[str, ...]:
        """The operations that this server carries out, by the names under which it advertises them."""
        return tuple(self._handlers)

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
        except Corrupt as error:
            is_senders = error.file == REQUEST
            return answer_to(InvalidInput(f"cannot read {REQUEST}: {error.reason}") if is_senders else error)
        except Exception as error:  # the server lives on; the log has the traceback
            return answer_to(error)

    def _caller(self, operation: str, call: Call) -> Caller:
        if self._tokens is None or operation == TOKEN:
            return EVERYONE
        return self._tokens.caller(call.headers.get("authorization"))

    def _carried_out(self, operation: str, call: Call, caller: Caller) -> Answer:
        if operation not in self._handlers:
            raise NotOffered(f"cannot do this: {_WHY_NOT[operation]}", feature=operation)
        handler = self._handlers[operation]
        call = replace(call, sees=caller.sees, may_write=caller.role >= Role.WRITE)
        if self._replays is not None and HEADER in call.headers and operation in _REPLAYED:
            answer = self._replays.answer(operation, call, caller.name, handler)
        else:
            answer = handler(call)
        if role_for(operation) > Role.READ and operation != TOKEN:
            audit.info("%s %s by %s: %d", operation, dict(call.path), caller.name, answer.status)
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


def _no_route(status: int, why: str, headers: dict[str, str] | None = None) -> Answer:
    kind = "NoSuchRouteException" if status == 404 else "MethodNotAllowedException"
    return error_answer(status, kind, why, headers)

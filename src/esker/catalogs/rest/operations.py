"""The operations of the REST catalog, by the names under which servers advertise them, and their addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from urllib.parse import quote, unquote, urlencode

from esker.catalogs.rest.nessie import prefix_at
from esker.errors import InvalidInput
from esker.model.table_names import Namespace, TableName

DEFAULT_SEPARATOR = "%1F"  # between the levels of a namespace, in an address
_N = "/v1/{prefix}/namespaces/{namespace}"
_T = f"{_N}/tables/{{table}}"
_V = f"{_N}/views/{{view}}"


class Operation(Enum):
    """One operation; the value is how ``endpoints`` of a server's configuration names it."""

    LIST_NAMESPACES = "GET /v1/{prefix}/namespaces"
    CREATE_NAMESPACE = "POST /v1/{prefix}/namespaces"
    LOAD_NAMESPACE = f"GET {_N}"
    NAMESPACE_EXISTS = f"HEAD {_N}"
    DROP_NAMESPACE = f"DELETE {_N}"
    UPDATE_NAMESPACE = f"POST {_N}/properties"
    LIST_TABLES = f"GET {_N}/tables"
    CREATE_TABLE = f"POST {_N}/tables"
    REGISTER_TABLE = f"POST {_N}/register"
    LOAD_TABLE = f"GET {_T}"
    UPDATE_TABLE = f"POST {_T}"
    DROP_TABLE = f"DELETE {_T}"
    TABLE_EXISTS = f"HEAD {_T}"
    UNREGISTER_TABLE = f"POST {_T}/unregister"
    LOAD_CREDENTIALS = f"GET {_T}/credentials"
    SIGN_REQUEST = f"POST {_T}/sign"
    RENAME_TABLE = "POST /v1/{prefix}/tables/rename"
    REPORT_METRICS = f"POST {_T}/metrics"
    COMMIT_TRANSACTION = "POST /v1/{prefix}/transactions/commit"
    PLAN_SCAN = f"POST {_T}/plan"
    FETCH_PLAN = f"GET {_T}/plan/{{plan-id}}"
    CANCEL_PLAN = f"DELETE {_T}/plan/{{plan-id}}"
    FETCH_TASKS = f"POST {_T}/tasks"
    LIST_VIEWS = f"GET {_N}/views"
    CREATE_VIEW = f"POST {_N}/views"
    LOAD_VIEW = f"GET {_V}"
    REPLACE_VIEW = f"POST {_V}"
    DROP_VIEW = f"DELETE {_V}"
    VIEW_EXISTS = f"HEAD {_V}"
    RENAME_VIEW = "POST /v1/{prefix}/views/rename"
    REGISTER_VIEW = f"POST {_N}/register-view"

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.value.partition(" ")[0]

    @property
    def template(self) -> str:
        """The path with its gaps."""
        return self.value.partition(" ")[2]

    @property
    def words(self) -> str:
        """The operation in a sentence."""
        return self.name.lower().replace("_", " ")


VIEWS = frozenset(
    {
        *(Operation.LIST_VIEWS, Operation.CREATE_VIEW, Operation.LOAD_VIEW, Operation.REPLACE_VIEW),
        *(Operation.DROP_VIEW, Operation.RENAME_VIEW),
    }
)
KEYED = frozenset(  # takes an idempotency key
    {
        *(Operation.CREATE_NAMESPACE, Operation.DROP_NAMESPACE, Operation.UPDATE_NAMESPACE, Operation.CREATE_TABLE),
        *(Operation.REGISTER_TABLE, Operation.UPDATE_TABLE, Operation.DROP_TABLE, Operation.UNREGISTER_TABLE),
        *(Operation.RENAME_TABLE, Operation.COMMIT_TRANSACTION, Operation.PLAN_SCAN, Operation.CANCEL_PLAN),
        *(Operation.FETCH_TASKS, Operation.REPLACE_VIEW, Operation.DROP_VIEW, Operation.RENAME_VIEW),
        Operation.REGISTER_VIEW,
    }
)
ASSUMED = frozenset(  # where a server advertises nothing: the set of the first days
    {
        *(Operation.LIST_NAMESPACES, Operation.LOAD_NAMESPACE, Operation.CREATE_NAMESPACE, Operation.UPDATE_NAMESPACE),
        *(Operation.DROP_NAMESPACE, Operation.LIST_TABLES, Operation.LOAD_TABLE, Operation.CREATE_TABLE),
        *(Operation.UPDATE_TABLE, Operation.DROP_TABLE, Operation.RENAME_TABLE, Operation.REGISTER_TABLE),
        *(Operation.REPORT_METRICS, Operation.COMMIT_TRANSACTION),
    }
)
S3_TABLES = frozenset(  # what AWS S3 Tables has, which may advertise nothing
    {
        *(Operation.LIST_NAMESPACES, Operation.CREATE_NAMESPACE, Operation.LOAD_NAMESPACE, Operation.NAMESPACE_EXISTS),
        *(Operation.DROP_NAMESPACE, Operation.LIST_TABLES, Operation.CREATE_TABLE, Operation.LOAD_TABLE),
        *(Operation.UPDATE_TABLE, Operation.DROP_TABLE, Operation.TABLE_EXISTS, Operation.RENAME_TABLE),
    }
)
GLUE = S3_TABLES - {Operation.RENAME_TABLE}
NESSIE = ASSUMED | VIEWS | {Operation.NAMESPACE_EXISTS}  # 0.99 advertises nothing
NOT_ON_NESSIE = {Operation.TABLE_EXISTS, Operation.VIEW_EXISTS}  # 400 where the name is of the other kind


class Routes:
    """Addresses below one server's ``/v1``."""

    def __init__(self, uri: str, prefix: str = "", separator: str = DEFAULT_SEPARATOR) -> None:
        self._uri = uri.rstrip("/")
        self._prefix = prefix.strip("/")
        self._separator = separator
        if any(part in ("..", ".") for part in self._prefix.split("/")) or any(sign in prefix for sign in "?# \r\n"):
            raise InvalidInput(f"cannot use the REST catalog: its prefix {prefix!r} is not a path")

    def url(
        self,
        operation: Operation,
        name: Namespace | TableName | None = None,
        *,
        query: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
        plan_id: str = "",
        at: str = "",
    ) -> str:
        """The address of an operation on a namespace, a table or a view; ``at`` is a version of Nessie's catalog."""
        prefix = prefix_at(self._prefix, at) if at else self._prefix
        path = operation.template.replace("/{prefix}", f"/{prefix}" if prefix else "")
        if isinstance(name, TableName):
            path = path.replace("{table}", _part(name.name)).replace("{view}", _part(name.name))
            path = path.replace("{namespace}", self._namespace(name.namespace))
        elif name is not None:
            path = path.replace("{namespace}", self._namespace(name))
        path = path.replace("{plan-id}", _part(plan_id))
        return f"{self._uri}{path}{'?' + urlencode(query, quote_via=quote) if query else ''}"

    def parent(self, namespace: Namespace) -> str:
        """A namespace as the value of the parameter ``parent``."""
        return unquote(self._separator).join(namespace)

    def _namespace(self, namespace: Namespace) -> str:
        return self._separator.join(map(_part, namespace))


def _part(text: str) -> str:
    return quote(text, safe="")

"""Namespaces of a REST catalog."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence

from esker.catalogs.refusals import checked_namespace, dotted, namespace_exists, namespace_in_use, no_such_namespace
from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.server_errors import error_in
from esker.catalogs.rest.service import RestService
from esker.errors import Conflict, Unsupported
from esker.model.table_names import Namespace

_ATTEMPTS = 12
_WAIT_S = 0.01


class RestNamespaces:
    """Lists, makes, changes and drops namespaces."""

    def __init__(self, service: RestService) -> None:
        self._service = service

    def all(self) -> tuple[Namespace, ...]:
        """Every namespace, sorted."""
        found: list[Namespace] = []
        waiting: list[Namespace] = [()]
        while waiting:
            below = self.below(waiting.pop())
            found += below
            waiting += below
        return tuple(sorted(set(found)))

    def properties(self, namespace: Namespace) -> Mapping[str, str]:
        """The properties of a namespace. Raises ``NoSuchNamespace`` if it does not exist."""
        doing = f"load namespace {dotted(checked_namespace(namespace))}"
        answer = self._service.ask(Operation.LOAD_NAMESPACE, namespace, doing)
        if answer.status == 404:
            raise no_such_namespace(namespace)
        found = self._service.document(answer, doing).get("properties") or {}
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}

    def create(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Create a namespace and those above it. Raises ``AlreadyExists`` if it exists."""
        doing = f"create namespace {dotted(checked_namespace(namespace))}"
        if len(namespace) > 1 and not self._nests:
            raise Unsupported(
                f"cannot {doing}: namespaces of the REST catalog at {self._service.address} have one level",
                feature="nested namespaces",
            )
        for depth in range(1, len(namespace)):  # servers differ in whether those above must be there
            above = namespace[:depth]
            if not self.has(above):
                self._service.change(
                    Operation.CREATE_NAMESPACE, None, {"namespace": list(above), "properties": {}}, doing
                )
        body = {"namespace": list(namespace), "properties": dict(properties)}
        answer = self._service.change(Operation.CREATE_NAMESPACE, None, body, doing)
        if answer.status == 409:
            raise namespace_exists(namespace)
        if answer.status == 404:
            raise no_such_namespace(namespace[:-1])

    def update(self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Set and remove properties. Raises ``NoSuchNamespace``, and ``Conflict`` after too many lost races: Nessie
        refuses one of two changes that come at once."""
        doing = f"set properties of namespace {dotted(checked_namespace(namespace))}"
        body = {"removals": [name for name in removals if name not in updates], "updates": dict(updates)}
        for attempt in range(_ATTEMPTS):
            answer = self._service.change(Operation.UPDATE_NAMESPACE, namespace, body, doing)
            if answer.status == 404:
                raise no_such_namespace(namespace)
            if answer.status != 409:
                return
            time.sleep(random.uniform(0, _WAIT_S * 2 ** min(attempt, 6)))
        said = error_in(answer, self._service.secrets)
        raise Conflict(f"cannot {doing}: others changed it first {_ATTEMPTS} times in a row ({said}); try again")

    def drop(self, namespace: Namespace, held: Callable[[Namespace], Sequence[str]]) -> None:
        """Drop a namespace. Raises ``InvalidInput`` if it contains anything; ``held`` names what it contains."""
        doing = f"drop namespace {dotted(checked_namespace(namespace))}"
        if found := held(namespace):  # some servers drop a namespace that holds others
            raise namespace_in_use(namespace, found)
        answer = self._service.change(Operation.DROP_NAMESPACE, namespace, None, doing, needs_body=False)
        if answer.status == 404:
            raise no_such_namespace(namespace)
        if answer.status == 409:
            raise namespace_in_use(namespace, held(namespace) or ["something"])

    def below(self, namespace: Namespace) -> list[Namespace]:
        """The namespaces directly below one, sorted."""
        if namespace and not self._nests:
            return []
        doing = f"list namespaces below {dotted(namespace)}" if namespace else "list namespaces"
        query = {"parent": self._service.configuration.routes.parent(namespace)} if namespace else {}
        listed = self._service.pages(Operation.LIST_NAMESPACES, None, doing, "namespaces", query)
        found = [] if listed is None else [tuple(map(str, one)) for one in listed]
        # a server may give names from the root or from the parent on
        whole = [one if one[: len(namespace)] == namespace else (*namespace, *one) for one in found]
        depth = len(namespace) + 1
        return sorted({one[:depth] for one in whole if len(one) >= depth})

    @property
    def _nests(self) -> bool:
        """Whether a namespace can hold others; those of S3 Tables and Glue cannot."""
        return self._service.settings.text("rest.signing-name") not in ("s3tables", "glue")

    def has(self, namespace: Namespace) -> bool:
        """Whether there is such a namespace."""
        exists = self._service.offers(Operation.NAMESPACE_EXISTS)
        operation = Operation.NAMESPACE_EXISTS if exists else Operation.LOAD_NAMESPACE
        return self._service.ask(operation, namespace, f"look for namespace {dotted(namespace)}").is_success

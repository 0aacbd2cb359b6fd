"""From a method and a path to an operation of the REST catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from esker.catalogs.rest.operations import Operation
from esker.errors import InvalidInput

CONFIG = "GET /v1/config"
TOKEN = "POST /v1/oauth/tokens"
LIST_FUNCTIONS = "GET /v1/{prefix}/namespaces/{namespace}/functions"
LOAD_FUNCTION = "GET /v1/{prefix}/namespaces/{namespace}/functions/{function}"


@dataclass(frozen=True, slots=True)
class Found:
    """An operation, by its method and the template of its path, and what fills the gaps of that path."""

    operation: str
    gaps: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OtherMethod:
    """The path exists, but not with this method."""

    allowed: tuple[str, ...]


class Routes:
    """The operations that a server answers, found by method and path.

    Templates have a gap ``{prefix}``. The server has one catalog, so its paths have no prefix.
    """

    def __init__(self, operations: Iterable[str]) -> None:
        self._by_length: dict[int, list[tuple[str, tuple[str, ...], str]]] = {}
        for operation in operations:
            method, _, template = operation.partition(" ")
            parts = tuple(template.replace("/{prefix}", "").strip("/").split("/"))
            self._by_length.setdefault(len(parts), []).append((method, parts, operation))

    def find(self, method: str, raw_path: str) -> Found | OtherMethod | None:
        """The operation of a request; None if no operation has this path.

        ``raw_path`` is still percent-encoded: a table's name may contain a slash only in that form. Raises
        ``InvalidInput`` for a path that is not UTF-8.
        """
        parts = raw_path.strip("/").split("/")
        others: list[str] = []
        for offered, template, operation in self._by_length.get(len(parts), ()):
            if not all(wanted[0] == "{" or wanted == part for wanted, part in zip(template, parts, strict=True)):
                continue
            if offered != method:
                others.append(offered)
                continue
            gaps = {w[1:-1]: _decoded(p) for w, p in zip(template, parts, strict=True) if w[0] == "{"}
            return Found(operation, gaps)
        return OtherMethod(tuple(sorted(set(others)))) if others else None


def _decoded(part: str) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"cannot read the path: {part!r} is not UTF-8") from None


ALL_OPERATIONS = (CONFIG, TOKEN, LIST_FUNCTIONS, LOAD_FUNCTION, *(operation.value for operation in Operation))
"""The 35 operations of the protocol."""

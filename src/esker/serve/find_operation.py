"""From a method and a path to an operation of the REST catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
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


_Places: TypeAlias = tuple[int, ...]
"""Which parts of a path are fixed: the others are gaps."""


@dataclass(frozen=True, slots=True)
class _Template:
    """A path of the protocol: the names of its gaps by their places, and its operations by method."""

    gaps: Mapping[int, str]
    operations: dict[str, str] = field(default_factory=dict)


class Routes:
    """The operations that a server answers, found by method and path.

    Templates have a gap ``{prefix}``. The server has one catalog, so its paths have no prefix.
    """

    def __init__(self, operations: Iterable[str]) -> None:
        self._by_length: dict[int, dict[_Places, dict[tuple[str, ...], _Template]]] = {}
        for operation in operations:
            method, _, template = operation.partition(" ")
            parts = template.replace("/{prefix}", "").strip("/").split("/")
            fixed = tuple(at for at, part in enumerate(parts) if part[0] != "{")
            shapes = self._by_length.setdefault(len(parts), {}).setdefault(fixed, {})
            gaps = {at: part[1:-1] for at, part in enumerate(parts) if part[0] == "{"}
            found = shapes.setdefault(tuple(parts[at] for at in fixed), _Template(gaps))
            found.operations[method] = operation

    def find(self, method: str, raw_path: str) -> Found | OtherMethod | None:
        """The operation of a request; None if no operation has this path.

        ``raw_path`` is still percent-encoded: a table's name may contain a slash only in that form. Raises
        ``InvalidInput`` for a path that is not UTF-8.
        """
        parts = raw_path.strip("/").split("/")
        for fixed, shapes in self._by_length.get(len(parts), {}).items():
            template = shapes.get(tuple([parts[at] for at in fixed]))
            if template is None:
                continue
            if method not in template.operations:
                return OtherMethod(tuple(sorted(template.operations)))
            gaps = {name: _decoded(parts[at]) for at, name in template.gaps.items()}
            return Found(template.operations[method], gaps)
        return None


def _decoded(part: str) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"cannot read the path: {part!r} is not UTF-8") from None


LIST_DROPPED = "GET /esker/v1/dropped"
UNDROP = "POST /esker/v1/dropped"
OWN_OPERATIONS = (LIST_DROPPED, UNDROP)
"""What this server has beside the protocol."""
ALL_OPERATIONS = (CONFIG, TOKEN, LIST_FUNCTIONS, LOAD_FUNCTION, *(operation.value for operation in Operation))
"""The 35 operations of the protocol."""

"""Names of namespaces and tables, and the characters that a name may not contain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from esker.errors import InvalidInput

Namespace = tuple[str, ...]

_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f/\\\ud800-\udfff]")  # half of a surrogate pair has no bytes


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """The name of a table: its namespace and its own name."""

    namespace: Namespace
    name: str

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))

    @classmethod
    def parse(cls, text: str | TableName) -> TableName:
        """Parse ``sales.orders``, or ``a.b.orders`` in a nested namespace. Raises `InvalidInput`."""
        if isinstance(text, TableName):
            return text
        parts = split_name(text)
        if len(parts) < 2:
            raise InvalidInput(f"cannot read {text!r} as a table: write it as namespace.table", name=text)
        return cls(parts[:-1], parts[-1])


def parse_namespace(text: str | Namespace) -> Namespace:
    """Parse ``sales`` or ``a.b``. Raises `InvalidInput`."""
    return split_name(text) if isinstance(text, str) else tuple(map(_checked, text))


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a dotted name. Each becomes a folder, so no part may lead out of its place. Raises
    `InvalidInput`."""
    return tuple(_checked(part) for part in text.split("."))


def _checked(part: str) -> str:
    if not part.strip() or part != part.strip():
        raise InvalidInput(
            f"cannot use {part!r}: it is not a name, because it is empty or begins or ends with a space", name=part
        )
    if part in (".", "..") or _FORBIDDEN.search(part) or len(part.encode()) > 200:
        raise InvalidInput(
            f"cannot use {part!r}: it is not a name: slashes, control characters and over 200 bytes are not allowed",
            name=part,
        )
    return part


def namespace_changes(updates: Mapping[str, str], removals: Iterable[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Properties of a namespace to set and to remove. Raises `InvalidInput` if one is in both, or is not text."""
    gone = (removals,) if isinstance(removals, str) else tuple(removals)
    if not all(isinstance(text, str) for text in (*updates, *updates.values(), *gone)):
        raise InvalidInput("cannot set properties of a namespace: names and values must be text")
    if both := sorted(set(gone).intersection(updates)):
        raise InvalidInput(f"cannot both set and remove the property {both[0]!r}; do one of them", property=both[0])
    return dict(updates), gone

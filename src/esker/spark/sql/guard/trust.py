"""What a reader allows to views beyond what every view may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from esker.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Trust:
    """Nothing, a few names, or everything."""

    everything: bool = False
    names: frozenset[str] = frozenset()  # of functions, and full names of Spark's tables, in lower case

    def allows(self, name: str) -> bool:
        """Whether the reader allowed a function or a table by this name."""
        return self.everything or name.lower() in self.names


def trust_of(given: bool | Iterable[str]) -> Trust:
    """What ``trusted_views`` says; ``InvalidInput`` where it is neither a truth value nor names."""
    if isinstance(given, bool):
        return Trust(everything=given)
    names = [] if isinstance(given, str | bytes) else list(given)
    if isinstance(given, str | bytes) or not all(isinstance(name, str) and name for name in names):
        raise InvalidInput(
            f"cannot use trusted_views={given!r}: give True, or a list of functions and tables that views may use"
        )
    return Trust(names=frozenset(name.lower() for name in names))

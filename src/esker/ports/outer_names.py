"""Names that a package offers and an outer ring makes. The composition root says where each is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MADE_IN: dict[str, Mapping[str, str]] = {}


def offer(package: str, made_in: Mapping[str, str]) -> None:
    """Record for each name that a package offers which module makes it. No such module is imported yet."""
    _MADE_IN[package] = dict(made_in)


def find(package: str, name: str) -> Any:
    """What the name stands for; its module is imported when it is asked for first.

    ``AttributeError`` where the package offers no such name.
    """
    import importlib

    module = _MADE_IN.get(package, {}).get(name)
    if module is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)

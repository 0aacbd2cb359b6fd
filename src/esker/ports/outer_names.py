"""Names that a package offers and a module of an outer ring makes. The composition root registers the modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MADE_IN: dict[str, Mapping[str, str]] = {}


def offer(package: str, made_in: Mapping[str, str]) -> None:
    """Record which module makes each name of a package. The modules are not imported yet."""
    _MADE_IN[package] = dict(made_in)


def find(package: str, name: str) -> Any:
    """The object of that name. Its module is imported at the first use.

    Raises ``AttributeError`` if the package does not offer the name.
    """
    import importlib

    module = _MADE_IN.get(package, {}).get(name)
    if module is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)

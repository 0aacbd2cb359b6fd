"""Spark as an engine.

Esker plans and commits in Python. Spark's own readers and Spark's workers read and write the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from esker.spark.attached.attach import attach, detach
    from esker.spark.source.register_source import register

__all__ = ["attach", "detach", "register"]

_HOMES = {
    "attach": "esker.spark.attached.attach",
    "detach": "esker.spark.attached.attach",
    "register": "esker.spark.source.register_source",
}


# Loaded when first used: everything that this package imports is sent to every executor.
def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'esker.spark' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)

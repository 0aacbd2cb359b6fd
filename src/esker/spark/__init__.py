"""Spark as the engine: plans and commits stay in Python, rows are moved by Spark's own readers and by its workers."""

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


# Found when first used, and by name: what this package imports travels to every executor.
def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'esker.spark' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)

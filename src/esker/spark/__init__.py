"""Spark as the engine: plans and commits stay in Python, rows are moved by Spark's own readers and by its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from esker.spark.source.register import register

__all__ = ["register"]


# Found when first used, and by name: what this package imports travels to every executor.
def __getattr__(name: str) -> Any:
    if name != "register":
        raise AttributeError(f"module 'esker.spark' has no attribute {name!r}")
    import importlib

    return importlib.import_module("esker.spark.source.register").register

"""Sends the compiled walk to machines without Esker: its file as bytes, used if platform and interpreter match.

A worker calls ``install`` with the result of the driver's ``packed``. If the file cannot be used, the walk in Python
is.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import sysconfig
import tempfile
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_NAME = "esker.otlp._walk"


@dataclass(frozen=True, slots=True)
class Extension:
    """A compiled module, and the platform that it runs on."""

    platform: str
    stable: bool  # built for the stable ABI: any CPython of that platform
    python: str
    content: bytes  # compressed


@cache
def packed() -> Extension | None:
    """The compiled walk of this machine; None if it has none."""
    found = importlib.util.find_spec(_NAME)
    if found is None or found.origin is None or not Path(found.origin).is_file():
        return None
    path = Path(found.origin)
    stable = ".abi3." in path.name
    return Extension(_platform(), stable, sys.implementation.cache_tag, zlib.compress(path.read_bytes()))


def _platform() -> str:
    return f"{sys.implementation.name}-{sysconfig.get_platform()}-{'nogil' if _free_threaded() else 'gil'}"


def _free_threaded() -> bool:
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def install(extension: Extension | None) -> bool:
    """Make the compiled walk importable. Returns whether one can be imported now."""
    if _NAME in sys.modules:
        return True
    if extension is None or extension.platform != _platform():
        return False
    if not extension.stable and extension.python != sys.implementation.cache_tag:
        return False
    try:
        _load(zlib.decompress(extension.content))
    except (OSError, ImportError):  # another C library, or no place to write to: the walk in Python is used
        return False
    return True


def _load(content: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="esker-") as folder:  # readable by this user alone
        path = Path(folder) / f"_walk{importlib.machinery.EXTENSION_SUFFIXES[-1]}"
        path.write_bytes(content)
        loader = importlib.machinery.ExtensionFileLoader(_NAME, str(path))
        spec = importlib.util.spec_from_loader(_NAME, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        sys.modules[_NAME] = module  # stays mapped after the file is removed

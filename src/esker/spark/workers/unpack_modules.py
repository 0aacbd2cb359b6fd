"""Makes Esker importable in a worker: imports the modules that were sent with the job from memory.

This file runs in executors that may have no Esker, or another version, so it imports nothing of Esker. The modules are
code objects: PySpark requires that driver and workers run the same Python.
"""

from __future__ import annotations

import hashlib
import marshal
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

_PACKAGE, _MARK = "esker", "__parcel__"


class Parcel(MetaPathFinder, Loader):
    """Finds modules by name among those that were sent.

    No other Esker module is found: it would be of another version. Compiled modules are not sent. One that is installed
    is used if it is the driver's, byte by byte: of these, the digest was sent.
    """

    def __init__(self, modules: dict[str, tuple[bool, CodeType | str]]) -> None:
        self._modules = {name: (package, code) for name, (package, code) in modules.items() if type(code) is not str}
        self._compiled = {name: digest for name, (_, digest) in modules.items() if type(digest) is str}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that was sent. Returns None for modules of other packages."""
        if name in self._modules:
            return ModuleSpec(name, self, origin="sent with the job", is_package=self._modules[name][0])
        if (digest := self._compiled.get(name)) is not None and (found := _installed(name, digest)) is not None:
            return found
        if name.startswith(f"{_PACKAGE}."):
            raise ModuleNotFoundError(f"{name} was not sent with the job", name=name)
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's code."""
        exec(self._modules[module.__name__][1], module.__dict__)


def _installed(name: str, digest: str) -> ModuleSpec | None:
    """A compiled module of the Esker that is installed here, if its file is the same as the driver's."""
    for folder in _installed_folders():
        for suffix in EXTENSION_SUFFIXES:
            file = Path(folder, *name.split(".")[1:-1], name.rpartition(".")[2] + suffix)
            with suppress(OSError):
                if hashlib.sha256(file.read_bytes()).hexdigest() == digest:
                    return spec_from_file_location(name, file)
    return None


def _installed_folders() -> Iterator[str]:
    for finder in sys.meta_path:
        if type(finder).__name__ != Parcel.__name__ and hasattr(finder, "find_spec"):
            spec = finder.find_spec(_PACKAGE, None)
            yield from (spec.submodule_search_locations or ()) if spec is not None else ()


def unpack(parcel: bytes, digest: str) -> None:
    """Make the modules of a parcel importable. They replace other modules with the same names."""
    if getattr(sys.modules.get(_PACKAGE), _MARK, None) == digest:  # a worker process may run many tasks
        return
    for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
        del sys.modules[name]
    others = [finder for finder in sys.meta_path if type(finder).__name__ != Parcel.__name__]
    sys.meta_path[:] = [Parcel(marshal.loads(zlib.decompress(parcel))), *others]
    setattr(__import__(_PACKAGE), _MARK, digest)

"""A place that is no machine's: ``s3://golden/…``, which each engine that writes there keeps in a local folder."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.fs as pafs
from fsspec.implementations.local import LocalFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from esker.storage.local import LocalStorage
from esker.storage.relocated import RelocatedStorage

PLACE = "s3://golden"


def neutral_file_system(folder: str) -> LocalFileSystem:
    """For fsspec, and so for DuckDB and PyIceberg: ``s3://golden/…`` is below ``folder``."""

    class Neutral(LocalFileSystem):
        protocol = ("s3",)
        cachable = False

        @classmethod
        def _strip_protocol(cls, path: Any) -> Any:
            if isinstance(path, list):
                return [cls._strip_protocol(each) for each in path]
            way = str(path).removeprefix("s3://").removeprefix(folder).lstrip("/")
            return f"{folder}/{way.removeprefix('golden').lstrip('/')}".rstrip("/")

    return Neutral(auto_mkdir=True)


class NeutralFileIO(PyArrowFileIO):
    """For PyIceberg, named in its catalog's ``py-io-impl``; the folder is its property ``golden.folder``."""

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> pafs.FileSystem:
        return pafs.PyFileSystem(pafs.FSSpecHandler(neutral_file_system(self.properties["golden.folder"])))


class NeutralStorage(RelocatedStorage):
    """For Esker."""

    def __init__(self, folder: Path) -> None:
        super().__init__(LocalStorage(), recorded=PLACE, actual=str(folder))

    def write_new(self, location: str, data: bytes) -> None:
        self._inner.write_new(self.where(location), data)

    def open_new(self, location: str) -> AbstractContextManager[BinaryIO]:
        return self._inner.open_new(self.where(location))

    def delete(self, location: str) -> None:
        self._inner.delete(self.where(location))

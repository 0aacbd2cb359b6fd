"""A table by its place alone, with no catalog: which of its metadata files is the current one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from esker.errors import EskerError, NoSuchTable
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.ports.storage import Storage
from esker.storage.local import LocalStorage

# The number at the start of a file name, but not the first digits of a name that is only a UUID.
_VERSION = re.compile(r"(?![0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.)v?(\d+)(?=[-.])")
_SUFFIXES = (".metadata.json", ".metadata.json.gz")
_LONGEST_HINT = 4096


def is_metadata_file(location: str) -> bool:
    """Whether a location is that of a metadata file, by its name."""
    return location.endswith((".json", ".json.gz"))


def current_metadata_file(directory: Path) -> Path:
    """Return the newest metadata file of a table directory: the highest version, even if an old hint names another.

    Raises ``NoSuchTable`` if the directory has no metadata file.
    """
    folder = directory / "metadata" if (directory / "metadata").is_dir() else directory
    names = [file.name for file in folder.iterdir() if file.name.endswith(_SUFFIXES)]
    # Confined like every other read: links, pipes and devices in a table of unknown origin are not followed.
    confined = LocalStorage(roots=(directory,))
    return folder / _newest(confined, str(directory), str(folder.absolute()), names)


def current_metadata_object(storage: Storage, directory: str) -> str:
    """The same of a table in an object store, where a folder that is empty is not there."""
    base = directory.rstrip("/")
    for folder in (f"{base}/metadata", base):
        below = (file.location[len(folder) + 1 :] for file in storage.list(folder))
        names = [name for name in below if name.endswith(_SUFFIXES) and "/" not in name]
        if names:
            return f"{folder}/{_newest(storage, directory, folder, names)}"
    raise _no_table(directory, f"{base}/metadata")


def _newest(storage: Storage, directory: str, folder: str, names: Sequence[str]) -> str:
    if not names:
        raise _no_table(directory, folder)
    versions = {name: int(match[1]) for name in names if (match := _VERSION.match(name))}
    newest = max(versions.values(), default=-1)
    # A name without a number comes from another tool. Then the time that the file records decides.
    best = [name for name in names if versions.get(name, newest) == newest]
    chosen = _hinted(storage, folder, best)
    return chosen or (best[0] if len(best) == 1 else max(best, key=partial(_updated_ms, storage, folder)))


def _hinted(storage: Storage, folder: str, candidates: Sequence[str]) -> str | None:
    """Of files of one version, the one that ``version-hint.text`` names in full. Some catalogs write such a hint."""
    if len(candidates) < 2:
        return None
    try:
        with storage.open(f"{folder}/version-hint.text") as file:
            hint = file.read(_LONGEST_HINT).decode(errors="replace").strip()
    except EskerError:
        return None
    names = {hint, f"{hint}.metadata.json", f"v{hint}.metadata.json"}
    return next((name for name in candidates if name in names), None)


def _updated_ms(storage: Storage, folder: str, name: str) -> tuple[int, str]:
    try:
        data = storage.read(f"{folder}/{name}")
        return decode_table_metadata(name, data).last_updated_ms, name
    except EskerError:  # two files claim one version and this one cannot be read: the other is the table
        return -1, name


def _no_table(directory: str, folder: str) -> NoSuchTable:
    return NoSuchTable(f"no table at {directory}: {folder} has no *.metadata.json file", path=directory)

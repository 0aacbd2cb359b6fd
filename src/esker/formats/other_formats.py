"""Table formats besides Iceberg. An address belongs to one by its scheme, a directory by its layout.

This is the only module that names another format. A new format is one more entry.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput, NoSuchFile
from esker.ports.catalog import Catalog, TableState
from esker.ports.own_writer import OwnWriter
from esker.ports.storage import Storage
from esker.ports.table_format import TableFormat
from esker.storage.choose import absolute, is_remote, storage_for
from esker.storage.failures import naming_failures
from esker.storage.objects.configuration import HiddenProperties, ObjectConfiguration
from esker.storage.objects.object_storage import ObjectStorage

if TYPE_CHECKING:
    from esker.tree.table_metadata import TableMetadata

ListFolders = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFormat:
    """A format: how its tables are recognised, loaded, read, inspected and written, and its catalog."""

    scheme: str  # of the addresses of its catalogs
    is_table: Callable[[Storage, str], bool]
    load: Callable[[Storage, str], TableState]
    make_format: Callable[[Storage], TableFormat]
    make_inspect: Callable[[TableMetadata, TableFormat], Any]
    make_catalog: Callable[[Storage, str, ListFolders], Catalog]
    make_writer: Callable[[Storage, TableMetadata, str], OwnWriter]  # of a branch


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedCatalog:
    """A catalog of another format, and the arguments that open it in another process."""

    format: OtherFormat
    catalog: Catalog
    address: Mapping[str, Any]


def format_at(storage: Storage, root: str) -> OtherFormat | None:
    """The format of the table in a directory; None if it is no table of another format."""
    return next((one for one in FORMATS if one.is_table(storage, root)), None)


def open_other_catalog(
    uri: str, *, allowed_roots: Sequence[str], properties: Mapping[str, str] | None, must_exist: bool
) -> OpenedCatalog | None:
    """The catalog at an address such as ``paimon:///data/warehouse`` or ``paimon:s3://bucket/warehouse``. None if no
    other format has the scheme. Raises ``NoSuchFile`` for a directory that must exist and does not."""
    scheme, _, rest = uri.partition(":")
    chosen = next((one for one in FORMATS if one.scheme == scheme.lower()), None)
    if chosen is None:
        return None
    place = rest.removeprefix("//") if rest.startswith("///") or not is_remote(rest) else rest
    if not place.strip("/"):
        raise InvalidInput(f"cannot open {uri}: name a directory, as in {chosen.scheme}:///data/warehouse")
    root = absolute(place)
    storage = storage_for((root, *map(absolute, allowed_roots)), configuration=ObjectConfiguration.of(properties))
    if must_exist and not is_remote(root) and not Path(root).is_dir():
        raise NoSuchFile(f"cannot open {uri}: there is no directory {root}", file=root)
    address: dict[str, Any] = {"uri": f"{chosen.scheme}:{root}", "allowed_roots": [absolute(r) for r in allowed_roots]}
    if properties:
        address["properties"] = HiddenProperties(properties)
    catalog = chosen.make_catalog(storage, root, _folders_of(storage))
    return OpenedCatalog(format=chosen, catalog=catalog, address=address)


def _folders_of(storage: Storage) -> ListFolders:
    if isinstance(storage, ObjectStorage):
        objects = storage
        return lambda place: [name.rstrip("/").rpartition("/")[2] for name in objects.folders(place)[0]]
    return _local_folders


def _local_folders(place: str) -> list[str]:
    with naming_failures("list", place):
        try:
            return [entry.name for entry in os.scandir(place) if entry.is_dir()]
        except (FileNotFoundError, NotADirectoryError):
            return []


# ---------------------------------------------------------------- Paimon, imported when a table needs it


def _is_paimon(storage: Storage, root: str) -> bool:
    from esker.paimon.read_table import is_paimon_table

    return is_paimon_table(storage, root)


def _load_paimon(storage: Storage, root: str) -> TableState:
    from esker.paimon.paimon_warehouse import load_table

    return load_table(storage, root)


def _paimon_format(storage: Storage) -> TableFormat:
    from esker.paimon.format import PaimonFormat

    return PaimonFormat(storage)


def _paimon_inspect(metadata: TableMetadata, table_format: TableFormat) -> Any:
    from esker.paimon.format import PaimonFormat
    from esker.paimon.inspect import PaimonInspect

    assert isinstance(table_format, PaimonFormat)  # made above
    return PaimonInspect(metadata, table_format)


def _paimon_catalog(storage: Storage, root: str, list_folders: ListFolders) -> Catalog:
    from esker.paimon.paimon_warehouse import PaimonWarehouse

    return PaimonWarehouse(storage, root, list_folders)


def _paimon_writer(storage: Storage, metadata: TableMetadata, branch: str) -> OwnWriter:
    from esker.paimon.table_writer import PaimonWriter

    return PaimonWriter(storage, metadata, branch)


FORMATS = (
    OtherFormat(
        scheme="paimon",
        is_table=_is_paimon,
        load=_load_paimon,
        make_format=_paimon_format,
        make_inspect=_paimon_inspect,
        make_catalog=_paimon_catalog,
        make_writer=_paimon_writer,
    ),
)

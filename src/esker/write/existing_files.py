"""Data files that exist already: files below a folder that are added to a table, and files that workers wrote.

For a folder: the partition values in the names of its sub-folders, and the spec that these fit. No file is read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esker.errors import Conflict, InvalidInput, NoSuchFile, Unsupported
from esker.model.file_paths import HIVE_NULL, hive_values, same_file, split_location, value_of_text
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.transform import IdentityTransform, VoidTransform
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

# ---------------------------------------------------------------- files of a user


OTHER_FORMATS = ("orc", "avro")
Filter = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingFile:
    """A file to add. ``values`` are the partition values in its folders' names, as text; None: those in its location,
    or in its statistics."""

    location: str
    values: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingFiles:
    """The files of a new table, instead of rows."""

    files: tuple[ExistingFile, ...]
    parallelism: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFile:
    """A file, its partition spec, and the text of its partition values by the spec's names."""

    location: str
    spec_id: int
    folders: Mapping[str, str | None] | None = None


def files_below(storage: Storage, folder: str) -> list[ExistingFile]:
    """The data files below a folder, with the values of the ``name=value`` folders between.

    Names that begin with ``_`` or ``.`` are left out, as in Spark and Hive. Raises ``NoSuchFile`` if no file is left,
    and ``InvalidInput`` if files are in folders with different names.
    """
    base = whole_location(storage, folder).rstrip("/")
    found = []
    for file in storage.list(base):
        way = file.location[len(base) + 1 :]
        if not any(map(_is_hidden, way.split("/"))):
            found.append(ExistingFile(location=file.location, values=hive_values(way)))
    if not found:
        raise NoSuchFile(
            f"cannot add the files below {folder}: it has no data file; names that begin with _ or . are left out",
            file=folder,
        )
    _check_alike(folder, found)
    return [file if file.values else ExistingFile(location=file.location) for file in found]


def whole_location(storage: Storage, path: str) -> str:
    """The absolute path, if the path is relative and local: a table may be read from another working directory."""
    if path.startswith("/") or ":" in path.split("/")[0]:
        return path
    return storage.local_folder(path) or path


def placed_files(
    storage: Storage, metadata: TableMetadata, paths: Iterable[str | ExistingFile], chosen: Filter | None = None
) -> list[PlacedFile]:
    """Files, and the files below folders, each with the spec that it fits; with ``chosen``, only of these partitions.

    Raises ``InvalidInput`` for a file that is given twice, for folders that fit no spec, and for a filter that matches
    nothing; ``Unsupported`` for ORC and Avro.
    """
    given = list(_listed(storage, paths))
    if chosen:
        given = _filtered(metadata, given, chosen)
    placed = [_placed(metadata, file) for file in given]
    seen: dict[str, str] = {}
    for file in placed:
        name = split_location(file.location)[2]
        if name in seen and same_file(file.location, seen[name]):
            raise InvalidInput(f"cannot add {file.location} twice", file=file.location)
        seen[name] = file.location
        ending = file.location.rpartition(".")[2].lower()
        if ending in OTHER_FORMATS:
            raise not_taken(ending, file.location)
    return placed


def not_taken(file_format: str, what: str) -> Unsupported:
    """The error for a format other than Parquet."""
    return Unsupported(
        f"cannot add {what}: files of the format {file_format} cannot be added without rewriting them, only Parquet; "
        "read them with Spark and append the rows",
        feature=f"add_files of {file_format}",
    )


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _check_alike(folder: str, files: Sequence[ExistingFile]) -> None:
    first = files[0]
    for file in files[1:]:
        if _names(file) != _names(first):
            raise InvalidInput(
                f"cannot add the files below {folder}: they are in folders of different names, "
                f"{first.location} and {file.location}; give the folders one by one",
                file=file.location,
            )


def _names(file: ExistingFile) -> list[str]:
    return [name.casefold() for name in file.values or ()]


def _listed(storage: Storage, paths: Iterable[str | ExistingFile]) -> Iterator[ExistingFile]:
    for path in paths:
        if isinstance(path, ExistingFile):
            yield path
        elif path.endswith("/") or (not storage.exists(path) and any(storage.list(path))):
            yield from files_below(storage, path)
        else:
            yield ExistingFile(location=whole_location(storage, path))


def _placed(metadata: TableMetadata, file: ExistingFile) -> PlacedFile:
    if not file.values:
        return PlacedFile(location=file.location, spec_id=metadata.spec.spec_id)
    spec = _fitting_spec(metadata, file)
    values = {name.casefold(): text for name, text in file.values.items()}
    folders: dict[str, str | None] = {}
    for field in _identities(spec):
        column = metadata.schema.name_by_id[field.source_id]
        text = next(values[key.casefold()] for key in (field.name, column) if key.casefold() in values)
        folders |= {field.name: text, column: text}
    return PlacedFile(location=file.location, spec_id=spec.spec_id, folders=folders)


def _fitting_spec(metadata: TableMetadata, file: ExistingFile) -> PartitionSpec:
    """The spec, preferably the current one, whose columns are exactly those of the file's folders. Raises
    ``InvalidInput``."""
    names = sorted(_names(file))
    for spec in (metadata.spec, *metadata.specs):
        plain = all(isinstance(field.transform, IdentityTransform | VoidTransform) for field in spec.fields)
        fields = _identities(spec)
        called = [field.name for field in fields]
        columns = [metadata.schema.name_by_id.get(field.source_id, field.name) for field in fields]
        if plain and names in (sorted(map(str.casefold, called)), sorted(map(str.casefold, columns))):
            return spec
    wanted = ", ".join(file.values or ())
    has = ", ".join(f"{field.transform}({field.name})" for field in metadata.spec.fields) or "nothing"
    raise InvalidInput(
        f"cannot add {file.location}: its folders partition rows by {wanted}, and no partition spec of the table "
        f"has exactly these columns, unchanged; the table is partitioned by {has}",
        file=file.location,
    )


def _identities(spec: PartitionSpec) -> list[PartitionField]:
    return [field for field in spec.fields if isinstance(field.transform, IdentityTransform)]


def _filtered(metadata: TableMetadata, files: Sequence[ExistingFile], chosen: Filter) -> list[ExistingFile]:
    """The files of partitions with these values, compared as values of the table's columns."""
    for file in files[:1]:
        unknown = [name for name in chosen if name.casefold() not in _names(file)]
        if unknown:
            has = ", ".join(file.values or ()) or "none"
            raise InvalidInput(
                f"cannot choose partitions by {unknown[0]!r}: the folders of {file.location} have the names: {has}",
                column=unknown[0],
            )
    found = [
        file
        for file in files
        if all(_agrees(metadata, name, value, file.values or {}) for name, value in chosen.items())
    ]
    if files and not found:
        said = ", ".join(f"{name} = {value}" for name, value in chosen.items())
        raise InvalidInput(f"cannot add files: there is no partition with {said}")
    return found


def _agrees(metadata: TableMetadata, name: str, value: str | None, values: Mapping[str, str | None]) -> bool:
    text = next(held for key, held in values.items() if key.casefold() == name.casefold())
    value = None if value == HIVE_NULL else value
    field = next((f for f in metadata.schema.fields if f.name.casefold() == name.casefold()), None)
    if text == value or field is None:
        return text == value
    try:
        one: Any = value_of_text(field.type, text)
        return bool(one == value_of_text(field.type, value))
    except ValueError:
        return False


# ---------------------------------------------------------------- files that workers of another engine wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Written files, given to a verb instead of rows. The verb owns them: if it fails, they are deleted."""

    files: tuple[DataFile, ...]
    spec_id: int  # of the files
    began_at: int | None  # the branch's head when the writing began; None for an empty table

    def start(self, metadata: TableMetadata) -> Snapshot | None:
        """The snapshot that the writing began from. Raises ``Conflict`` if the table no longer has it or the files'
        spec."""
        if self.spec_id not in metadata.spec_by_id:
            raise Conflict(
                f"cannot commit files of partition spec {self.spec_id}: the table no longer has it; write them again",
                spec_id=self.spec_id,
            )
        if self.began_at is None:
            return None
        found = metadata.snapshot(self.began_at)
        if found is None:
            raise Conflict(
                f"cannot commit: snapshot {self.began_at}, which the writing began from, has expired; write again",
                snapshot_id=self.began_at,
            )
        return found

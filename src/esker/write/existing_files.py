"""Data files that exist already: files below a folder that a table takes in, and files that workers wrote.

For a folder: the partition values that its sub-folders name, and the spec that these fit. No file is opened here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esker.errors import Conflict, InvalidInput, NoSuchFile, Unsupported
from esker.model.file_paths import HIVE_NULL, hive_values, same_file, spelt, value_of_text
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.transform import IdentityTransform, VoidTransform
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

# ---------------------------------------------------------------- existing files
#
# Data files that are there already: those below a folder, the partition values that folders name, and the spec that
# these fit. Nothing is opened here.


OTHER_FORMATS = ("orc", "avro")
Filter = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingFile:
    """A file to take in. ``values`` are the partition values of its folders as text, by the names that they have there;
    None: whatever its location names, or its statistics decide."""

    location: str
    values: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingFiles:
    """The files that a new table begins with, in place of rows."""

    files: tuple[ExistingFile, ...]
    parallelism: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFile:
    """A file, the spec that it is taken in under, and the text of its partition values by the spec's own names."""

    location: str
    spec_id: int
    folders: Mapping[str, str | None] | None = None


def files_below(storage: Storage, folder: str) -> list[ExistingFile]:
    """The data files below a folder, with the values of the ``name=value`` folders between.

    What begins with ``_`` or ``.`` is left out, as Spark and Hive do. ``NoSuchFile`` where no file is left, and
    ``InvalidInput`` where files are in folders of different names.
    """
    base = whole_location(storage, folder).rstrip("/")
    found = []
    for file in storage.list(base):
        way = file.location[len(base) + 1 :]
        if not any(map(_is_hidden, way.split("/"))):
            found.append(ExistingFile(location=file.location, values=hive_values(way)))
    if not found:
        raise NoSuchFile(
            f"cannot add the files below {folder}: no data file is there; names that begin with _ or . are left out",
            file=folder,
        )
    _check_alike(folder, found)
    return [file if file.values else ExistingFile(location=file.location) for file in found]


def whole_location(storage: Storage, path: str) -> str:
    """The path from the root on, where it is a relative one of this machine's: a table is read from anywhere."""
    if path.startswith("/") or ":" in path.split("/")[0]:
        return path
    return storage.local_folder(path) or path


def placed_files(
    storage: Storage, metadata: TableMetadata, paths: Iterable[str | ExistingFile], chosen: Filter | None = None
) -> list[PlacedFile]:
    """Files and folders as files, each with the spec that it fits; with ``chosen``, of these partitions only.

    Raises ``InvalidInput`` for a file that is named twice, for folders that fit no spec, and for a filter that fits
    nothing; ``Unsupported`` for ORC and Avro.
    """
    given = list(_listed(storage, paths))
    if chosen:
        given = _filtered(metadata, given, chosen)
    placed = [_placed(metadata, file) for file in given]
    seen: dict[str, str] = {}
    for file in placed:
        name = spelt(file.location)[2]
        if name in seen and same_file(file.location, seen[name]):
            raise InvalidInput(f"cannot add {file.location} twice", file=file.location)
        seen[name] = file.location
        ending = file.location.rpartition(".")[2].lower()
        if ending in OTHER_FORMATS:
            raise not_taken(ending, file.location)
    return placed


def not_taken(file_format: str, what: str) -> Unsupported:
    """The refusal of a format other than Parquet."""
    return Unsupported(
        f"cannot add {what}: files of the format {file_format} cannot be taken in where they are, only Parquet; "
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
    """The spec, the table's present one if it can be, that divides by just the columns of the file's folders."""
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
        f"cannot add {file.location}: its folders divide rows by {wanted}, and no partition spec of the table is by "
        f"just these columns as they are; the table is partitioned by {has}",
        file=file.location,
    )


def _identities(spec: PartitionSpec) -> list[PartitionField]:
    return [field for field in spec.fields if isinstance(field.transform, IdentityTransform)]


def _filtered(metadata: TableMetadata, files: Sequence[ExistingFile], chosen: Filter) -> list[ExistingFile]:
    """The files of partitions that have these values; compared as values of the table's columns."""
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


# ---------------------------------------------------------------- written
#
# Data that is written already: workers of another engine made the files, and a commit is all that is left.


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Files for a verb to take in place of rows. They are the verb's from then on: where it fails, they are deleted."""

    files: tuple[DataFile, ...]
    spec_id: int  # that the files are partitioned by
    began_at: int | None  # the branch's head when the writing began; None for an empty table

    def start(self, metadata: TableMetadata) -> Snapshot | None:
        """The snapshot that the writing began from; ``Conflict`` where the table has moved away from under it."""
        if self.spec_id not in metadata.spec_by_id:
            raise Conflict(
                f"cannot commit files of partition spec {self.spec_id}: the table has none of that number any more; "
                "write them again",
                spec_id=self.spec_id,
            )
        if self.began_at is None:
            return None
        found = metadata.snapshot(self.began_at)
        if found is None:
            raise Conflict(
                f"cannot commit: snapshot {self.began_at}, which the writing began from, has expired meanwhile; "
                "write again",
                snapshot_id=self.began_at,
            )
        return found

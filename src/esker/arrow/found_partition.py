"""The partition that an existing file is in, decided without reading its rows, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from esker.arrow.footer_metrics import Seen
from esker.errors import InvalidInput
from esker.model.hive_folders import value_of_text
from esker.model.partition import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import BucketTransform, IdentityTransform, VoidTransform, apply_transform
from esker.model.types import Type, is_floating

Folders = Mapping[str, str | None]


def found_partition(
    location: str,
    spec: PartitionSpec,
    schema: Schema,
    seen: Mapping[int, Seen],
    folders: Folders,
    *,
    must_agree: bool = False,
) -> tuple[Any, ...]:
    """The partition tuple; ``InvalidInput`` says why a member of it cannot be known.

    ``must_agree``: a column that the file has too must hold the value of the folder.
    """
    found = []
    for field in spec.fields:
        value = _member(location, field, schema, seen.get(field.source_id), folders)
        if must_agree and seen.get(field.source_id) is not None:
            _check_agrees(location, field, schema, value, folders)
        found.append(value)
    return tuple(found)


def _member(location: str, field: PartitionField, schema: Schema, seen: Seen | None, folders: Folders) -> Any:
    if isinstance(field.transform, VoidTransform):
        return None
    source = schema.by_id[field.source_id]
    name = schema.name_by_id[field.source_id]
    if seen is None:
        return _from_folder(location, field, name, source.type, folders)
    if not seen.values:
        if isinstance(field.transform, IdentityTransform) and _key(field, name, folders) is not None:
            return _from_folder(location, field, name, source.type, folders)
        raise _undecided(location, field, f"the file has no rows to tell {name!r} by")
    if seen.nulls is None:
        raise _undecided(location, field, f"its footer has no statistics of {name!r}")
    if seen.nulls == seen.values:
        return None
    if seen.nulls:
        raise _undecided(location, field, f"column {name!r} holds both nulls and values")
    if is_floating(source.type):
        raise _undecided(location, field, f"statistics of the float column {name!r} do not show NaN")
    if seen.low is None:
        raise _undecided(location, field, f"its footer has no bounds of {name!r}")
    low, high = (apply_transform(field.transform, source.type, value) for value in (seen.low, seen.high))
    # A bucket has no order: only where there is one value all rows are in its bucket.
    if low != high or (isinstance(field.transform, BucketTransform) and seen.low != seen.high):
        raise _undecided(location, field, f"{name!r} runs from {seen.low!r} to {seen.high!r}, over several partitions")
    return low


def _from_folder(location: str, field: PartitionField, name: str, type_: Type, folders: Folders) -> Any:
    if not isinstance(field.transform, IdentityTransform):
        raise _undecided(location, field, f"the file does not have column {name!r}")
    key = _key(field, name, folders)
    if key is None:
        raise _undecided(
            location, field, f"the file does not have column {name!r}, nor a folder {field.name}=… above it"
        )
    try:
        return value_of_text(type_, folders[key])
    except ValueError:
        raise _undecided(location, field, f"the folder's value {folders[key]!r} is no {type_}") from None


def _key(field: PartitionField, name: str, folders: Folders) -> str | None:
    return next((key for key in (field.name, name) if key in folders), None)


def _check_agrees(location: str, field: PartitionField, schema: Schema, value: Any, folders: Folders) -> None:
    """Engines that take the value of the folder and those that take the file's must read the same rows."""
    name, type_ = schema.name_by_id[field.source_id], schema.by_id[field.source_id].type
    key = _key(field, name, folders)
    if key is None or not isinstance(field.transform, IdentityTransform):
        return
    text = folders[key]
    for meant in {text, None if text is None else unquote_plus(text)}:  # Iceberg's writers make a plus of a blank
        try:
            if value_of_text(type_, meant) == value:
                return
        except ValueError:
            continue
    raise _undecided(location, field, f"column {name!r} holds {value!r} in the file, and its folder says {text!r}")


def _undecided(location: str, field: PartitionField, why: str) -> InvalidInput:
    return InvalidInput(
        f"cannot add {location}: its partition {field.name!r} ({field.transform}) cannot be decided, because {why}",
        file=location,
        column=field.name,
    )

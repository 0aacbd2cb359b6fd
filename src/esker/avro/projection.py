"""What to keep of an Avro file, by field id: names are not stable between writers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Projection:
    """The fields to keep; the rest is walked over without an allocation.

    A field is kept when its id is chosen, or when something below it is. A chosen field keeps all
    that is below it, unless some of that is chosen (or picked from) as well: then only those.
    List elements and map values are chosen by their ``element-id`` and ``value-id``; a map that is
    kept always keeps its keys.
    """

    ids: frozenset[int] | None = None  # None: every field
    picks: tuple[tuple[int, tuple[int, ...]], ...] = ()  # (map field's id, the int keys to keep)
    names: tuple[tuple[str, int], ...] = ()  # (dotted path, id) for fields without an id

    @classmethod
    def of(
        cls,
        ids: Iterable[int] | None = None,
        *,
        map_keys: Mapping[int, Sequence[int]] | None = None,
        names: Mapping[str, int] | None = None,
    ) -> Self:
        """A projection from plain collections.

        ``map_keys`` names maps with int keys by field id (125: lower_bounds). Such a column becomes
        a struct with one nullable child per key, named ``str(key)`` in the order given: a null map
        is a null struct of nulls, a missing key is null, of a repeated key the last one counts.
        ``names`` gives ids to fields whose writer left them out, by dotted path ("data_file.file_path").
        """
        return cls(
            ids=None if ids is None else frozenset(ids),
            picks=tuple(sorted((id_, tuple(dict.fromkeys(keys))) for id_, keys in (map_keys or {}).items())),
            names=tuple(sorted((names or {}).items())),
        )

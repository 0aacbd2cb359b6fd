"""Parquet's mark that a group is a variant, set in the footer as it is written.

pyarrow writes such a group but cannot mark it: it knows the annotation in C++, and no type of Python's reaches it.
Without the mark other readers take the group for a struct. So the end of the file, which is the footer, is held back
when the writer closes; a few bytes are put into the schema's elements for variants; and then it is written. Nothing
in a footer points into the footer itself, so nothing else changes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import BinaryIO

from esker.arrow.compact_thrift import BINARY, I32, LIST, STRUCT, Cursor

MAGIC = b"PAR1"
_SCHEMA = 2  # of FileMetaData
_NAME, _CHILDREN, _LOGICAL_TYPE = 4, 5, 10  # of SchemaElement
# LogicalType's member 16 is a VariantType, whose field 1, a byte, is the version of the encoding.
_VARIANT = bytes((STRUCT, 16 << 1, 1 << 4 | 3, 1, 0, 0))

Path = tuple[str, ...]


class HeldFooter:
    """A sink that can keep what is written to it for a while."""

    def __init__(self, under: BinaryIO) -> None:
        self._under = under
        self._held: list[bytes] | None = None
        self.closed = False

    def hold(self) -> None:
        """Keep what is written from here on."""
        self._held = []

    def release(self, variants: Collection[Path]) -> None:
        """Write what was kept, with these groups marked."""
        held, self._held = b"".join(self._held or ()), None
        self._under.write(annotated(held, variants))

    def write(self, data: bytes) -> int:
        """Take some bytes."""
        if self._held is None:
            return self._under.write(data)
        self._held.append(bytes(data))
        return len(data)

    def tell(self) -> int:
        """How many bytes were written, with those that are kept."""
        return self._under.tell() + sum(map(len, self._held or ()))

    def flush(self) -> None:
        """What is kept stays so."""
        self._under.flush()

    def close(self) -> None:
        """The file below belongs to somebody else."""
        self.closed = True

    def readable(self) -> bool:
        """Never."""
        return False

    def writable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Never."""
        return False


def annotated(data: bytes, variants: Collection[Path]) -> bytes:
    """The end of a Parquet file, with the groups at these paths of its schema marked as variants."""
    length = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != MAGIC or length > len(data) - 8:
        raise ValueError("these bytes do not end as a Parquet file does")
    footer = data[len(data) - 8 - length : -8]
    pieces, start = [], 0
    for end, last in _ends(footer, frozenset(variants)):
        pieces += [footer[start:end], bytes((_LOGICAL_TYPE - last << 4 | STRUCT,)), _VARIANT]
        start = end
    marked = b"".join((*pieces, footer[start:]))
    return b"".join((data[: len(data) - 8 - length], marked, len(marked).to_bytes(4, "little"), MAGIC))


def _ends(footer: bytes, variants: frozenset[Path]) -> list[tuple[int, int]]:
    """For each variant where its element's fields end, and the id of the last of them."""
    cursor = Cursor(footer)
    found: dict[Path, tuple[int, int]] = {}
    for id_, kind in cursor.fields():
        if id_ != _SCHEMA or kind != LIST:
            cursor.skip(kind)
            continue
        above: list[tuple[Path, int]] = []  # the groups that are open: a path, and how many children are to come
        for at in cursor.items(STRUCT):
            name, children, last = _element(cursor)
            while above and not above[-1][1]:
                above.pop()
            path = (*above[-1][0], name) if above else ()
            if above:
                above[-1] = (above[-1][0], above[-1][1] - 1)
            if children or not at:
                above.append((path, children))
            if path in variants and at:
                found[path] = (cursor.at - 1, last)
    if found.keys() != variants or any(last >= _LOGICAL_TYPE for _, last in found.values()):
        raise ValueError(f"the file's schema has no plain groups {sorted(variants)}")
    return sorted(found.values())


def _element(cursor: Cursor) -> tuple[str, int, int]:
    """An element's name, its number of children, and the id of its last field."""
    name, children, last = "", 0, 0
    for id_, kind in cursor.fields():
        last = id_
        if id_ == _NAME and kind == BINARY:
            name = cursor.bytes().decode()
        elif id_ == _CHILDREN and kind == I32:
            children = cursor.number()
        else:
            cursor.skip(kind)
    return name, children, last

"""Open Parquet files with pyarrow, and correct one fault of other writers.

Hive annotates groups with the logical type UNKNOWN, which means "always null" and is only allowed on leaves. pyarrow
refuses such a file; other readers ignore the annotation. So if pyarrow refuses a file and its footer has such an
annotation, pyarrow gets a footer without it. Nothing in a footer points into the footer, so nothing else changes. The
file in storage is not changed.

Before version 26, pyarrow does not limit the nesting of a schema, and a footer of 100 kB can end the process. For these
versions, long footers are checked first.
"""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from esker.arrow.parquet_footer import I32, LARGEST_FOOTER, LIST, MAGIC, STRUCT, Cursor
from esker.storage.failures import is_failure

_SCHEMA = 2  # of FileMetaData
_CHILDREN, _LOGICAL_TYPE = 5, 10  # of SchemaElement
_UNKNOWN = 11  # of LogicalType

_HAS_BOUND = int(pa.__version__.partition(".")[0]) >= 26
_DEEPEST = 100  # the limit of pyarrow
_SHORT = 10_000  # a shorter footer, in bytes, cannot have a harmful schema

Cut = tuple[int, int]


def open_parquet(source: pa.NativeFile, **how: Any) -> tuple[pa.NativeFile, pq.ParquetFile]:
    """The open file, and the source with the bytes that pyarrow reads. Raises pyarrow's errors."""
    if not _HAS_BOUND:
        refuse_deep_schema(source)
    try:
        return source, pq.ParquetFile(source, **how)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and is_failure(error):  # the disk failed: the file may be fine
            raise
        mended = _mended(source)
        if mended is None:
            raise
    return mended, pq.ParquetFile(mended, **how)


def refuse_deep_schema(source: pa.NativeFile) -> None:
    """Raise ``pa.ArrowInvalid`` if the schema is nested too deeply for pyarrow. Other faults are left to pyarrow."""
    found = _footer(source)
    if found is None or len(found[1]) < _SHORT:
        return
    try:
        is_deep = _is_deep(found[1])
    except (IndexError, ValueError):
        return
    if is_deep:
        raise pa.ArrowInvalid(f"its schema is nested deeper than {_DEEPEST} levels")


def _is_deep(footer: bytes) -> bool:
    """Whether the schema is too deep. Elements are listed from the top down: a group, then everything in it."""
    cursor = Cursor(footer)
    for id_, kind in cursor.fields():
        if id_ != _SCHEMA or kind != LIST:
            cursor.skip(kind)
            continue
        left: list[int] = []  # children of each open group that are left
        for _ in cursor.items(STRUCT):
            while left and not left[-1]:
                left.pop()
            if left:
                left[-1] -= 1
            if children := _children(cursor):
                left.append(children)
                if len(left) > _DEEPEST:
                    return True
        return False
    return False


def _children(cursor: Cursor) -> int:
    """Read an element. Returns its number of children."""
    children = 0
    for id_, kind in cursor.fields():
        if id_ == _CHILDREN and kind == I32:
            children = cursor.number()
        else:
            cursor.skip(kind)
    return children


def _footer(source: pa.NativeFile) -> tuple[int, bytes] | None:
    """Where the footer starts, and its bytes. None if there is none."""
    size = source.size()
    tail = source.read_at(8, max(0, size - 8))
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length > min(size - 12, LARGEST_FOOTER):
        return None
    start = size - 8 - length
    return start, source.read_at(length, start)


def _mended(source: pa.NativeFile) -> pa.NativeFile | None:
    """The file without invalid annotations of groups. None if it has none, or makes no sense."""
    found = _footer(source)
    if found is None:
        return None
    start, footer = found
    try:
        cuts = _unknown_groups(footer)
    except (IndexError, ValueError):
        return None
    if not cuts:
        return None
    pieces, at = [], 0
    for begin, end in cuts:
        pieces.append(footer[at:begin])
        at = end
    left = b"".join((*pieces, footer[at:]))
    return pa.PythonFile(_WithEnd(source, start, left + len(left).to_bytes(4, "little") + MAGIC), mode="r")


def _unknown_groups(footer: bytes) -> list[Cut]:
    """Where in the footer the UNKNOWN annotations of groups are."""
    cursor = Cursor(footer)
    cuts: list[Cut] = []
    for id_, kind in cursor.fields():
        if id_ == _SCHEMA and kind == LIST:
            cuts += [cut for _ in cursor.items(STRUCT) if (cut := _annotation(cursor)) is not None]
        else:
            cursor.skip(kind)
    return cuts


def _annotation(cursor: Cursor) -> Cut | None:
    """Read an element. Returns the bytes of its annotation if it is a group with UNKNOWN."""
    children, cut, begin, last = 0, None, cursor.at, 0
    for id_, kind in cursor.fields():
        last = id_
        if id_ == _CHILDREN and kind == I32:
            children = cursor.number()
        elif id_ == _LOGICAL_TYPE and kind == STRUCT:
            members = []
            for member, inner in cursor.fields():
                members.append(member)
                cursor.skip(inner)
            cut = (begin, cursor.at) if members == [_UNKNOWN] else None
        else:
            cursor.skip(kind)
        begin = cursor.at
    # Ids are relative to the field before: without the removed field, the next one would be read wrongly.
    return cut if children and last == _LOGICAL_TYPE else None


class _WithEnd(io.RawIOBase):
    """A file up to a position, and other bytes after it."""

    def __init__(self, source: pa.NativeFile, start: int, end: bytes) -> None:
        self._source = source
        self._start = start
        self._end = end
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._start + len(self._end)}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        whole = self._start + len(self._end)
        wanted = whole - self._at if size is None or size < 0 else min(size, whole - self._at)
        stop = self._at + max(0, wanted)
        before = self._source.read_at(min(stop, self._start) - self._at, self._at) if self._at < self._start else b""
        after = self._end[max(0, self._at - self._start) : max(0, stop - self._start)]
        self._at = stop
        return bytes(before) + after

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()

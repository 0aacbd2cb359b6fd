"""Objects as files: read by few, large requests, and written in parts that become visible together.

A file that is opened is asked for its end first. The end of a Parquet file is its footer, so a footer costs one
request; a small object is read whole by it. Ends are kept, up to a number of bytes, because a footer is read to plan
and again to read rows.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

TAIL = 256 << 10
"""Bytes of an object's end that opening it reads."""
_AHEAD = 1 << 20
_MOST_AHEAD = 8 << 20
_KEPT = 32 << 20
PART = 8 << 20
"""Bytes of a part: what is smaller is created by one request, what is larger in parts."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The size of an object, and its last bytes."""

    size: int
    data: bytes

    @property
    def start(self) -> int:
        """Where the bytes begin."""
        return self.size - len(self.data)


class TailCache:
    """The ends of objects read last, at most so many bytes of them."""

    def __init__(self, most: int = _KEPT) -> None:
        self._most = most
        self._held = 0
        self._tails: OrderedDict[str, Tail] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, location: str) -> Tail | None:
        """The end of an object, if it is held."""
        with self._lock:
            if location in self._tails:
                self._tails.move_to_end(location)
            return self._tails.get(location)

    def put(self, location: str, tail: Tail) -> None:
        """Hold the end of an object; the ends that were not used for longest go."""
        with self._lock:
            self._drop(location)
            self._tails[location] = tail
            self._held += len(tail.data)
            while self._held > self._most:
                self._drop(next(iter(self._tails)))

    def forget(self, location: str) -> None:
        """An object that was deleted."""
        with self._lock:
            self._drop(location)

    def _drop(self, location: str) -> None:
        tail = self._tails.pop(location, None)
        self._held -= len(tail.data) if tail else 0


class ObjectFile(io.RawIOBase):
    """An object as a seekable file. ``fetch(start, end)`` gives bytes of it."""

    def __init__(self, tail: Tail, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._tail = tail
        self._fetch = fetch
        self._at = 0
        self._window = (0, b"")
        self._ahead = _AHEAD

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._tail.size}[whence]
        if base + offset < 0:
            raise ValueError(f"cannot seek to {base + offset}")
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(self._tail.size - self._at, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        found = self._range(self._at, self._at + wanted)
        self._at += wanted
        return found

    def readall(self) -> bytes:
        return self.read(-1)

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer).cast("B")
        found = self.read(len(view))
        view[: len(found)] = found
        return len(found)

    def _range(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        tail = self._tail
        if start >= tail.start:
            return tail.data[start - tail.start : end - tail.start]
        if end > tail.start:
            return self._range(start, tail.start) + tail.data[: end - tail.start]
        begin, held = self._window
        if begin <= start and end <= begin + len(held):
            return held[start - begin : end - begin]
        if begin <= start < begin + len(held):  # reading on: the rest, and more than last time
            self._ahead = min(self._ahead * 2, _MOST_AHEAD)
            return held[start - begin :] + self._range(begin + len(held), end)
        if start == begin + len(held) and held:
            self._ahead = min(self._ahead * 2, _MOST_AHEAD)
        data = self._fetch(start, min(max(end, start + self._ahead), tail.start))
        self._window = (start, data)
        return data[: end - start]


class Upload(io.RawIOBase):
    """A file to write an object through. Nothing is visible before `finish`; `abort` leaves nothing.

    ``create`` makes a small object by one request, ``start`` begins one in parts.
    """

    def __init__(self, create: Callable[[bytes], None], start: Callable[[], PartWriter]) -> None:
        super().__init__()
        self._create = create
        self._start = start
        self._parts: PartWriter | None = None
        self._held = bytearray()
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data).cast("B")
        self._at += len(view)
        if self._parts is None:
            self._held += view
            if len(self._held) >= PART:
                self._parts = self._start()
                held, self._held = bytes(self._held), bytearray()
                self._parts.write(held)
        else:
            self._parts.write(bytes(view))
        return len(view)

    def finish(self) -> None:
        """Make the object, whole."""
        if self._parts is None:
            self._create(bytes(self._held))
        else:
            self._parts.finish()

    def abort(self) -> None:
        """Drop what was written."""
        if self._parts is not None:
            self._parts.abort()


class PartWriter:
    """An object that is written in parts; the storage has one for each client."""

    def write(self, data: bytes) -> None:
        """Send data."""
        raise NotImplementedError

    def finish(self) -> None:
        """Make the object of all parts."""
        raise NotImplementedError

    def abort(self) -> None:
        """Remove all parts."""
        raise NotImplementedError

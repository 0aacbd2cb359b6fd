"""Many Hadoop ``FileStatus`` objects in one call to the JVM.

Each call costs a few milliseconds, so three thousand files would take seconds one by one. Hadoop can read an array of
them from bytes: a count, then per file the length and the bytes of its ``FileStatusProto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from esker.spark.jvm import Jvm
from esker.spark.placed_files import PlacedFile

# Field numbers of FileStatusProto, shifted by the wire type: 0 for numbers, 2 for what has a length.
_FILE_TYPE, _PATH, _LENGTH, _PERMISSION = b"\x08", b"\x12", b"\x18", b"\x22"
_OWNER, _GROUP, _MODIFIED, _ACCESSED = b"\x2a", b"\x32", b"\x38", b"\x40"
_STATUS_CLASS = "org.apache.hadoop.fs.FileStatus"
_IS_FILE, _NO_PERMISSION = b"\x02", b"\x02\x08\x00"


def encode_statuses(files: Iterable[PlacedFile]) -> bytes:
    """What Hadoop's ``ArrayWritable`` reads. A file's number goes for its time of modification."""
    encoded = [_status(file) for file in files]
    return b"".join((struct.pack(">i", len(encoded)), *encoded))


def _status(file: PlacedFile) -> bytes:
    path = file.uri.encode()
    body = b"".join(
        (
            _FILE_TYPE + _IS_FILE,
            _PATH + _varint(len(path)) + path,
            _LENGTH + _varint(file.size),
            _PERMISSION + _NO_PERMISSION,
            _OWNER + b"\x00",
            _GROUP + b"\x00",
            _MODIFIED + _varint(file.number),
            _ACCESSED + b"\x00",
        )
    )
    return struct.pack(">i", len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def make_statuses(jvm: Jvm, data: bytes) -> Any:
    """The array of ``FileStatus`` that the bytes describe."""
    kind = jvm.once(_STATUS_CLASS, lambda: jvm.call("java.lang.Class", "forName", _STATUS_CLASS))
    decoded = jvm.new("org.apache.hadoop.io.ArrayWritable", kind)
    decoded.readFields(jvm.new("java.io.DataInputStream", jvm.new("java.io.ByteArrayInputStream", data)))
    (count,) = struct.unpack(">i", data[:4])
    statuses = jvm.call("java.lang.reflect.Array", "newInstance", kind, count)
    jvm.call("java.lang.System", "arraycopy", decoded.get(), 0, statuses, 0, count)  # it holds them under a wider type
    return statuses

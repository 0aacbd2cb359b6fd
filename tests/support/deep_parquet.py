"""Parquet files without rows whose schema is nested as deep as is asked for."""

from __future__ import annotations

from esker.otlp.protocol.wire import varint

_ROOT = b"\x48\x01r\x15\x02\x00"  # a name, and one child
_GROUP = b"\x35\x02\x18\x01a\x15\x02\x00"  # optional, a name, one child
_LEAF = b"\x15\x04\x25\x02\x18\x01a\x00"  # INT64, optional, a name


def deep_parquet(groups: int) -> bytes:
    """A file with one column of so many groups within each other, all named ``a``."""
    schema = b"\x19\xfc" + varint(groups + 2) + _ROOT + _GROUP * groups + _LEAF
    footer = b"\x15\x02" + schema + b"\x16\x00\x19\x0c\x00"  # version 1, no rows, no row groups
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"

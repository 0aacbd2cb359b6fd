"""Avro containers, decoded into Arrow columns. Planning spends most of its time here.

``decode`` and ``decode_many`` decode whole containers in memory (manifests, manifest lists). ``iter_batches`` streams a
container of any size from a seekable file (data files). ``read_header`` reads only the header. A ``Projection`` selects
the fields to keep by field id. Other fields are skipped without an allocation. For any input, the result is columns, or
``Corrupt`` with the name of the file, or ``Unsupported`` with the feature. Memory is limited by ``Limits``.

The modules, from the bytes up:

    container      header, blocks, sync markers, and decompression with limits
    schema         the writer's schema as a tree
    shred_program  schema and projection, compiled to a program and an Arrow layout
    shred          runs the program over rows: ``_shred.c``, or ``_shred_py.py`` if that was not built. The compiled
                   one also inflates whole blocks (``_shred_blocks.h``, ``_shred_inflate.h``)
    logical_types  Avro's leaf types as Arrow types
    decoding       the functions named above
    write          new containers, and containers that extend an existing one without decoding it
"""

from __future__ import annotations

from esker.avro.container import LIMITS, Header, Limits
from esker.avro.decoding import AvroColumns, Part, arrow_schema, decode, decode_many, iter_batches, read_header
from esker.avro.shred_program import Projection
from esker.avro.write import Prepended, prepend, write

__all__ = [
    "LIMITS",
    "AvroColumns",
    "Header",
    "Limits",
    "Part",
    "Prepended",
    "Projection",
    "arrow_schema",
    "decode",
    "decode_many",
    "iter_batches",
    "prepend",
    "read_header",
    "write",
]

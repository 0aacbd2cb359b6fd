"""Avro containers, decoded straight into Arrow columns: the hot path of planning.

``decode`` and ``decode_many`` take whole containers held in memory (manifests, manifest lists);
``iter_batches`` streams a container of any size from a seekable file (data files); ``read_header``
stops after the header. A ``Projection`` names the fields to keep by field id; everything else is
walked over without an allocation. Whatever a file may say, the answer is columns, or ``Corrupt``
naming the file, or ``Unsupported`` naming the feature, in memory bounded by ``Limits``.

The modules, from the bytes up:

    codecs       block compression, every inflate bounded
    container    header, blocks, sync markers
    schema       the writer's schema as a tree
    projection   what to keep
    program      schema + projection, compiled to a walk and an Arrow layout
    shred        the walk: ``_shred.c``, or ``_shred_py.py`` where that was not built
    columns      the walk's buffers, put together as Arrow arrays
    decoding     the entries named above
    write        records to a container, by way of fastavro
    prepend      a few records before those of another container, copied undecoded
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

"""Makes the metadata of a large table whose data files do not exist: what planning reads, and nothing else.

    python benchmarks/synthesise.py DIRECTORY --manifests 1000 --files 100

Column ``c0`` ascends over the files, so that a range of it names few; the others overlap. The table is readable
by any Iceberg v2 reader as far as a plan goes. ``layout`` puts the entries into Avro blocks as a writer does: PyIceberg
writes a block for each entry, Java blocks of 64,000 bytes, Esker what fastavro makes.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from esker.avro.container import LIMITS, Block, Memory, read_blocks, read_head
from esker.avro.schema import Record
from esker.avro.shred import MAX_BYTES, shredder
from esker.avro.shred_program import Projection, compile_program
from esker.iceberg.manifests.manifest_list import encode_manifest_list
from esker.iceberg.manifests.write_manifest import ManifestForm, describe_manifest, encode_manifest
from esker.iceberg.metadata.partition_and_sort import encode_partition_spec
from esker.iceberg.metadata.schema import encode_schema
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import IDENTITY
from esker.model.types import DOUBLE, INT, LONG, STRING, TIMESTAMP, Field, Type
from esker.model.values import to_bytes
from esker.tree.data_file import DataFile, Metrics
from esker.tree.manifest import ManifestEntry
from esker.tree.manifest_list import ManifestFile

ROWS = 10_000
SNAPSHOT_ID = 4_242_424_242
REGION = 30  # manifests
KINDS: tuple[Type, ...] = (LONG, STRING, DOUBLE, TIMESTAMP)


def synthesise(
    directory: Path,
    *,
    manifests: int = 1000,
    files: int = 100,
    columns: int = 20,
    partitioned: bool = False,
    layout: str = "esker",
    copies: int = 1,
) -> Path:
    """Write the table below ``directory``; the answer is its metadata file. One that is there already is kept.

    ``copies`` lists each manifest so often, under names of its own: a very large table takes minutes otherwise. Its
    data files are then listed as often.
    """
    place = directory.resolve() / "metadata"
    target = place / "v1.metadata.json"
    if target.exists():
        return target
    place.mkdir(parents=True)
    schema = _schema(columns)
    form = ManifestForm.of(schema, _spec(schema, partitioned))
    with ProcessPoolExecutor() as pool:
        write = partial(_write_manifest, place, form, files=files, layout=layout)
        made = list(pool.map(write, range(manifests), chunksize=16))
    listed = [*made, *(_copied(place, manifest, number) for number in range(1, copies) for manifest in made)]
    snapshot_list = place / f"snap-{SNAPSHOT_ID}.avro"
    snapshot_list.write_bytes(encode_manifest_list(listed, snapshot_id=SNAPSHOT_ID, sequence_number=1))
    target.write_text(json.dumps(_metadata(place.parent, form, snapshot_list, manifests * files * copies)))
    return target


def _schema(columns: int) -> Schema:
    data = (Field(id=i + 1, name=f"c{i}", type=KINDS[i % len(KINDS)]) for i in range(columns))
    return Schema(fields=(*data, Field(id=columns + 1, name="region", type=INT)))


def _spec(schema: Schema, partitioned: bool) -> PartitionSpec:
    if not partitioned:
        return PartitionSpec()
    return PartitionSpec(
        fields=(PartitionField(source_id=schema.highest_id, field_id=1000, name="region", transform=IDENTITY),)
    )


# How each writer cuts a manifest: the bytes after which a block ends, and zlib's level.
LAYOUTS = {"pyiceberg": (1, 6), "java": (64_000, 9)}


def laid_out(data: bytes, layout: str) -> bytes:
    """The same entries in the blocks that the writer would make. Esker's own stay as they are."""
    if layout == "esker":
        return data
    enough, level = LAYOUTS[layout]
    source = Memory(memoryview(data), "a manifest")
    header = read_head(source, LIMITS)
    pieces, rows, held = [data[: len(data) - source.remaining]], 0, bytearray()
    for block in read_blocks(source, header, LIMITS):
        for row in _rows(header.schema, block):
            rows, held = rows + 1, held + row
            if len(held) >= enough:
                pieces.append(_block(rows, bytes(held), level, header.sync))
                rows, held = 0, bytearray()
    return b"".join([*pieces, *([_block(rows, bytes(held), level, header.sync)] if rows else [])])


def _rows(schema: Record, block: Block) -> Iterator[bytes]:
    program = compile_program(schema, Projection.of([0]), False)
    walk, at = shredder(program.code, program.slots), 0
    for _ in range(block.rows):
        end, _, _ = walk.feed(block.data, at, 1, MAX_BYTES)
        yield bytes(block.data[at:end])
        at = end


def _block(rows: int, data: bytes, level: int, sync: bytes) -> bytes:
    packed = zlib.compress(data, level)[2:-4]
    return _long(rows) + _long(len(packed)) + packed + sync


def _long(number: int) -> bytes:
    number, out = number << 1, bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _write_manifest(place: Path, form: ManifestForm, number: int, *, files: int, layout: str) -> ManifestFile:
    entries = list(_entries(place.parent, form, number, files))
    data = laid_out(encode_manifest(entries, form), layout)
    path = place / f"manifest-{number:06}.avro"
    path.write_bytes(data)
    return describe_manifest(
        entries, form, path=path.as_uri(), length=len(data), snapshot_id=SNAPSHOT_ID, sequence_number=1
    )


def _copied(place: Path, manifest: ManifestFile, number: int) -> ManifestFile:
    name = manifest.path.rpartition("/")[2]
    path = place / f"copy-{number:03}-{name}"
    os.link(place / name, path)
    return replace(manifest, path=path.as_uri())


def _entries(root: Path, form: ManifestForm, number: int, files: int) -> Iterator[ManifestEntry]:
    for at in range(number * files, (number + 1) * files):
        yield ManifestEntry(
            data_file=DataFile(
                path=f"{root.as_uri()}/data/part-{at:08}-5f9d7c1e-0000.parquet",
                file_format="parquet",
                record_count=ROWS,
                file_size=50_000_000 + at,
                partition=(number // REGION,) if form.spec.fields else (),
                metrics=_metrics(form.schema, at),
                split_offsets=(4,),
                sort_order_id=0,
            )
        )


def _metrics(schema: Schema, at: int) -> Metrics:
    ids = [field.id for field in schema.fields[:-1]]
    bounds = {field.id: _bounds(field, at) for field in schema.fields[:-1]}
    return Metrics(
        column_sizes={id_: 100_000 + id_ * at % 7919 for id_ in ids},
        value_counts=dict.fromkeys(ids, ROWS),
        null_counts={id_: at % 3 if id_ > 1 else 0 for id_ in ids},
        nan_counts={field.id: 0 for field in schema.fields if field.type == DOUBLE},
        lower_bounds={id_: lower for id_, (lower, _) in bounds.items()},
        upper_bounds={id_: upper for id_, (_, upper) in bounds.items()},
    )


def _bounds(field: Field, at: int) -> tuple[bytes, bytes]:
    if field.id == 1:
        return struct.pack("<q", at * ROWS), struct.pack("<q", at * ROWS + ROWS - 1)
    spread = (at * 2654435761 + field.id * 97) % 100_000
    match field.type:
        case t if t == STRING:
            return to_bytes(t, f"key-{spread:08}-aaa"), to_bytes(t, f"key-{spread + 900_000:08}-zzz")
        case t if t == DOUBLE:
            return to_bytes(t, spread / 7), to_bytes(t, spread / 7 + 1e6)
        case t:
            return to_bytes(t, spread), to_bytes(t, spread + 10**9)


def _metadata(root: Path, form: ManifestForm, snapshot_list: Path, files: int) -> dict[str, object]:
    snapshot = {
        "snapshot-id": SNAPSHOT_ID,
        "sequence-number": 1,
        "timestamp-ms": 1_700_000_000_000,
        "manifest-list": snapshot_list.as_uri(),
        "summary": {"operation": "append", "total-data-files": str(files), "total-records": str(files * ROWS)},
        "schema-id": 0,
    }
    return {
        "format-version": 2,
        "table-uuid": "5f9d7c1e-6f0a-4f6e-9d53-0b6f6f0c0de5",
        "location": root.as_uri(),
        "last-sequence-number": 1,
        "last-updated-ms": 1_700_000_000_000,
        "last-column-id": form.schema.highest_id,
        "schemas": [encode_schema(form.schema)],
        "current-schema-id": 0,
        "partition-specs": [encode_partition_spec(form.spec)],
        "default-spec-id": 0,
        "last-partition-id": 1000 if form.spec.fields else 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "current-snapshot-id": SNAPSHOT_ID,
        "snapshots": [snapshot],
        "snapshot-log": [{"timestamp-ms": 1_700_000_000_000, "snapshot-id": SNAPSHOT_ID}],
        "metadata-log": [],
        "refs": {"main": {"snapshot-id": SNAPSHOT_ID, "type": "branch"}},
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--manifests", type=int, default=1000)
    parser.add_argument("--files", type=int, default=100, help="data files per manifest")
    parser.add_argument("--columns", type=int, default=20, help="columns with statistics")
    parser.add_argument("--partitioned", action="store_true", help=f"by region, {REGION} manifests in a row each")
    parser.add_argument("--layout", choices=["esker", *LAYOUTS], default="esker", help="whose blocks")
    parser.add_argument("--copies", type=int, default=1, help="how often each manifest is listed, under other names")
    given = parser.parse_args()
    print(
        synthesise(
            given.directory,
            manifests=given.manifests,
            files=given.files,
            columns=given.columns,
            partitioned=given.partitioned,
            layout=given.layout,
            copies=given.copies,
        )
    )


if __name__ == "__main__":
    main()

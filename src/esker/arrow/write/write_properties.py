"""The ``write.*`` properties of Iceberg's configuration page for data files, and what Esker does with each.

| property | what Esker does |
| --- | --- |
| write.format.default | parquet; orc and avro are refused, because pyarrow cannot write field ids to them |
| write.target-file-size-bytes | a file is closed when this many compressed bytes are in it |
| write.parquet.row-group-size-bytes | an upper target for the compressed bytes of a row group |
| write.parquet.row-group-limit | the most rows of a row group (PyIceberg's property) |
| write.parquet.row-group-check-{min,max}-record-count | must be numbers, else not used; sizes are checked often |
| write.parquet.page-size-bytes, page-row-limit, page-version, dict-size-bytes | passed to pyarrow |
| write.parquet.compression-codec, compression-level | passed to pyarrow; lzo is refused |
| write.parquet.bloom-filter-{enabled,fpp,ndv}.column.*, bloom-filter-max-bytes | passed to pyarrow, refused if it \
cannot write bloom filters |
| write.parquet.bloom-filter-adaptive-enabled | true is refused |
| write.parquet.stats-enabled.column.*, dict-encoding-enabled.column.* | passed to pyarrow; see \
``choose_dictionaries.py`` |
| write.metadata.metrics.* | see ``metrics.py`` |
| write.data.path, write.object-storage.*, write.folder-storage.path | see ``file_locations.py`` |
| write.location-provider.impl | refused: it names a Java class |
| write.distribution-mode | none, hash and range are accepted: one process has all rows of a partition anyway |
| write.spark.fanout.enabled, write.orc.*, write.avro.* | not used |
| encryption.key-id | refused: the files would not be encrypted |

An invalid value raises ``InvalidInput``. A valid value that cannot be applied raises ``Unsupported``. Both name the
property.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from esker.arrow.write.bloom_filters import BloomFilter, bloom_filters
from esker.errors import InvalidInput, Unsupported
from esker.model.schema import Schema
from esker.tree.table_metadata import TableMetadata
from esker.write.properties import switch, whole_number

_PARQUET = "write.parquet."
_CODECS = {
    "zstd": "zstd",
    "gzip": "gzip",
    "snappy": "snappy",
    "brotli": "brotli",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "uncompressed": "none",
    "none": "none",
}
_PYARROW_TAKES = frozenset(inspect.signature(pq.ParquetWriter.__init__).parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How data files of a table are written."""

    target_file_bytes: int
    row_group_bytes: int
    row_group_rows: int
    parquet: Mapping[str, Any]  # keyword arguments of pyarrow's ParquetWriter
    without_statistics: frozenset[int] = frozenset()  # field ids
    without_dictionary: frozenset[int] = frozenset()
    bloom_filters: Mapping[int, BloomFilter] = field(default_factory=dict)


def write_options(metadata: TableMetadata, schema: Schema) -> WriteOptions:
    """The options that the table's properties ask for. An error names the property that cannot be applied."""
    properties = metadata.properties
    _refuse_what_cannot_be(properties)
    return WriteOptions(
        target_file_bytes=whole_number(properties, "write.target-file-size-bytes", 512 << 20, at_least=1),
        row_group_bytes=whole_number(properties, f"{_PARQUET}row-group-size-bytes", 128 << 20, at_least=1),
        row_group_rows=whole_number(properties, f"{_PARQUET}row-group-limit", 1 << 20, at_least=1),
        parquet=_parquet_arguments(properties),
        without_statistics=_switched_off(properties, f"{_PARQUET}stats-enabled.column.", schema),
        without_dictionary=_switched_off(properties, f"{_PARQUET}dict-encoding-enabled.column.", schema),
        bloom_filters=bloom_filters(properties, schema),
    )


def _refuse_what_cannot_be(properties: Mapping[str, str]) -> None:
    file_format = properties.get("write.format.default", "parquet").strip().lower()
    if file_format in ("orc", "avro"):
        raise Unsupported(
            f"cannot write data files as {file_format} (write.format.default): Esker writes only Parquet; "
            "set it to parquet",
            feature=f"writing {file_format}",
            property="write.format.default",
        )
    if file_format != "parquet":
        raise InvalidInput(
            f"cannot use write.format.default = {file_format!r}: it takes parquet, orc or avro",
            property="write.format.default",
        )
    for key, why in (
        ("write.location-provider.impl", "it names a Java class; write.data.path chooses a place"),
        ("encryption.key-id", "data files cannot be encrypted here"),
    ):
        if properties.get(key):
            raise Unsupported(f"cannot honour {key}: {why}", feature=key, property=key)
    if switch(properties, f"{_PARQUET}bloom-filter-adaptive-enabled", default=False):
        key = f"{_PARQUET}bloom-filter-adaptive-enabled"
        raise Unsupported(f"cannot honour {key}: pyarrow sizes bloom filters once", feature=key, property=key)
    mode = properties.get("write.distribution-mode", "none").strip().lower()
    if mode not in ("none", "hash", "range"):
        raise InvalidInput(
            f"cannot use write.distribution-mode = {mode!r}: it takes none, hash or range",
            property="write.distribution-mode",
        )


def _parquet_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    codec = properties.get(f"{_PARQUET}compression-codec", "zstd").strip().lower()
    key = f"{_PARQUET}compression-codec"
    if codec == "lzo":
        raise Unsupported(
            f"cannot honour {key} = lzo: pyarrow does not write it; use another codec", feature="lzo", property=key
        )
    if codec not in _CODECS:
        raise InvalidInput(f"cannot use {key} = {codec!r}: it takes {', '.join(_CODECS)}", property=key)
    version = properties.get(f"{_PARQUET}page-version", "v1").strip().lower()
    if version not in ("v1", "v2"):
        key = f"{_PARQUET}page-version"
        raise InvalidInput(f"cannot use {key} = {version!r}: it takes v1 or v2", property=key)
    for check in ("min", "max"):
        whole_number(properties, f"{_PARQUET}row-group-check-{check}-record-count", 1, at_least=1)
    return {
        "compression": _CODECS[codec],
        "compression_level": _level(properties, _CODECS[codec]),
        "data_page_size": whole_number(properties, f"{_PARQUET}page-size-bytes", 1 << 20, at_least=1),
        **_page_rows(properties),
        "dictionary_pagesize_limit": whole_number(properties, f"{_PARQUET}dict-size-bytes", 2 << 20, at_least=1),
        "data_page_version": "2.0" if version == "v2" else "1.0",
    }


def _page_rows(properties: Mapping[str, str]) -> dict[str, int]:
    key = f"{_PARQUET}page-row-limit"
    rows = whole_number(properties, key, 20_000, at_least=1)
    if "max_rows_per_page" in _PYARROW_TAKES:
        return {"max_rows_per_page": rows}
    if key in properties:
        raise Unsupported(
            f"cannot honour {key}: pyarrow {pa.__version__} has no limit of rows per page", feature=key, property=key
        )
    return {}


def _level(properties: Mapping[str, str], codec: str) -> int | None:
    key = f"{_PARQUET}compression-level"
    text = properties.get(key)
    if text is None or text.strip().lower() == "null":
        return None
    if codec in ("none", "snappy"):  # a level may be left over when a table's codec changes to one without levels
        return None
    low, high = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    try:
        level = int(text)
    except ValueError:
        level = low - 1
    if not low <= level <= high:
        raise InvalidInput(
            f"cannot use {key} = {text!r}: {codec} takes a whole number from {low} to {high}", property=key
        )
    return level


def _switched_off(properties: Mapping[str, str], prefix: str, schema: Schema) -> frozenset[int]:
    found = (key for key in properties if key.startswith(prefix) and not switch(properties, key, default=True))
    return frozenset(id_ for key in found if (id_ := schema.id_by_name.get(key.removeprefix(prefix))) is not None)

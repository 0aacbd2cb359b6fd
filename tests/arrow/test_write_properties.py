"""Each property of the table that concerns data files is honoured, or refused by its name; none is passed over."""

from __future__ import annotations

import pyarrow as pa
import pytest
from write_tables import Written, table_of, write

from esker.arrow.write import bloom_filters, write_properties
from esker.errors import EskerError, InvalidInput, Unsupported
from esker.model.types import BOOLEAN, LONG, STRING, Field, ListType

FIELDS = (
    Field(id=1, name="id", type=LONG),
    Field(id=2, name="s", type=STRING),
    Field(id=3, name="l", type=ListType(element_id=4, element=LONG)),
    Field(id=5, name="b", type=BOOLEAN),
)
ROWS = [{"id": n, "s": f"s{n % 50}", "l": [n]} for n in range(3000)]


def written(**properties: str) -> Written:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()}
    return write(table_of(*FIELDS, properties=named), ROWS)


def chunk(of: Written, leaf: int) -> pa.parquet.ColumnChunkMetaData:
    return of.parquet().metadata.row_group(0).column(leaf)


@pytest.mark.parametrize(
    ("codec", "found"),
    [
        (None, "ZSTD"),
        ("zstd", "ZSTD"),
        ("gzip", "GZIP"),
        ("snappy", "SNAPPY"),
        ("brotli", "BROTLI"),
        ("lz4", "LZ4"),
        ("uncompressed", "UNCOMPRESSED"),
        ("GZIP", "GZIP"),
    ],
)
def test_the_codec_is_zstd_or_the_one_asked_for(codec: str | None, found: str) -> None:
    properties = {} if codec is None else {"write.parquet.compression-codec": codec}
    of = write(table_of(*FIELDS, properties=properties), ROWS)
    assert chunk(of, 0).compression == found


def test_the_level_is_taken_by_codecs_that_have_one() -> None:
    sizes = [
        written(write__parquet__compression_codec="gzip", write__parquet__compression_level=level).files[0].file_size
        for level in ("1", "9")
    ]
    assert sizes[0] != sizes[1]
    written(write__parquet__compression_codec="snappy", write__parquet__compression_level="3")


def test_pages_are_as_large_as_asked() -> None:
    def pages(of: Written) -> int:
        return len(of.storage.read(of.files[0].path))

    assert pages(written(write__parquet__page_row_limit="10")) > 2 * pages(written())
    assert pages(written(write__parquet__page_size_bytes="100")) != pages(written())


def test_page_version_two_is_written_where_asked() -> None:
    found = [of.storage.read(of.files[0].path) for of in (written(), written(write__parquet__page_version="v2"))]
    assert found[0] != found[1]
    assert len(written(write__parquet__page_version="v2").rows()) == len(ROWS)


def test_a_dictionary_ends_where_it_grows_too_large() -> None:
    assert chunk(written(), 1).has_dictionary_page
    sizes = [chunk(written(write__parquet__dict_size_bytes=size), 1).total_uncompressed_size for size in ("64", "4096")]
    assert sizes[0] > 2 * sizes[1]
    off = written(**{"write.parquet.dict-encoding-enabled.column.s": "false"})
    assert not chunk(off, 1).has_dictionary_page
    assert chunk(off, 2).has_dictionary_page


def test_columns_without_a_dictionary_are_written_as_differences() -> None:
    of = written(**{f"write.parquet.dict-encoding-enabled.column.{name}": "false" for name in ("id", "s")})
    assert "DELTA_BINARY_PACKED" in chunk(of, 0).encodings
    assert "DELTA_LENGTH_BYTE_ARRAY" in chunk(of, 1).encodings
    assert of.rows() == written().rows()


def test_statistics_of_a_column_can_be_switched_off() -> None:
    of = written(**{"write.parquet.stats-enabled.column.s": "false"})
    assert chunk(of, 0).statistics is not None
    assert chunk(of, 1).statistics is None
    assert of.files[0].metrics is not None
    assert 2 in of.files[0].metrics.lower_bounds  # these are the manifest's, and steered by metrics modes


def test_row_groups_hold_as_many_rows_as_allowed() -> None:
    assert written(write__parquet__row_group_limit="1000").parquet().metadata.num_row_groups == 3


def test_bloom_filters_are_written_where_asked() -> None:
    of = written(
        **{
            "write.parquet.bloom-filter-enabled.column.s": "true",
            "write.parquet.bloom-filter-fpp.column.s": "0.1",
            "write.parquet.bloom-filter-enabled.column.id": "false",
            "write.parquet.bloom-filter-enabled.column.dropped": "true",
        }
    )
    assert chunk(of, 1).bloom_filter_length
    assert not chunk(of, 0).bloom_filter_length


def test_a_bloom_filter_stays_below_its_limit() -> None:
    of = written(
        **{"write.parquet.bloom-filter-enabled.column.s": "true", "write.parquet.bloom-filter-max-bytes": "1024"}
    )
    assert 0 < chunk(of, 1).bloom_filter_length <= 1024 + 64  # and its header
    few = written(
        **{"write.parquet.bloom-filter-enabled.column.s": "true", "write.parquet.bloom-filter-ndv.column.s": "10"}
    )
    assert chunk(few, 1).bloom_filter_length < 256


@pytest.mark.parametrize("format_", ["orc", "avro", "ORC"])
def test_other_file_formats_are_refused_by_name(format_: str) -> None:
    with pytest.raises(Unsupported, match=f"cannot write data files as {format_.lower()} \\(write.format.default\\)"):
        written(write__format__default=format_)


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("write.format.default", "csv", InvalidInput),
        ("write.target-file-size-bytes", "big", InvalidInput),
        ("write.target-file-size-bytes", "0", InvalidInput),
        ("write.parquet.row-group-size-bytes", "-1", InvalidInput),
        ("write.parquet.row-group-limit", "1.5", InvalidInput),
        ("write.parquet.row-group-check-min-record-count", "x", InvalidInput),
        ("write.parquet.page-size-bytes", "1k", InvalidInput),
        ("write.parquet.page-row-limit", "", InvalidInput),
        ("write.parquet.page-version", "v3", InvalidInput),
        ("write.parquet.dict-size-bytes", "two", InvalidInput),
        ("write.parquet.compression-codec", "rar", InvalidInput),
        ("write.parquet.compression-codec", "lzo", Unsupported),
        ("write.parquet.compression-level", "high", InvalidInput),
        ("write.parquet.compression-level", "99", InvalidInput),
        ("write.parquet.bloom-filter-enabled.column.s", "yes", InvalidInput),
        ("write.parquet.bloom-filter-enabled.column.b", "true", InvalidInput),
        ("write.parquet.bloom-filter-enabled.column.l", "true", InvalidInput),
        ("write.parquet.bloom-filter-max-bytes", "1", InvalidInput),
        ("write.parquet.bloom-filter-adaptive-enabled", "true", Unsupported),
        ("write.parquet.stats-enabled.column.s", "no", InvalidInput),
        ("write.parquet.dict-encoding-enabled.column.s", "no", InvalidInput),
        ("write.metadata.metrics.default", "all", InvalidInput),
        ("write.metadata.metrics.max-inferred-column-defaults", "-1", InvalidInput),
        ("write.object-storage.enabled", "1", InvalidInput),
        ("write.object-storage.partitioned-paths", "1", InvalidInput),
        ("write.location-provider.impl", "com.example.Provider", Unsupported),
        ("write.distribution-mode", "shuffle", InvalidInput),
        ("encryption.key-id", "k1", Unsupported),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_its_name(key: str, value: str, kind: type[EskerError]) -> None:
    with pytest.raises(kind, match=key.replace(".", r"\.")) as raised:
        written(**{key: value})
    assert raised.value.property == key


def test_a_false_positive_rate_lies_between_nought_and_one() -> None:
    with pytest.raises(InvalidInput, match=r"bloom-filter-fpp\.column\.s = '1\.5': it takes a number between 0 and 1"):
        written(
            **{
                "write.parquet.bloom-filter-enabled.column.s": "true",
                "write.parquet.bloom-filter-fpp.column.s": "1.5",
            }
        )


def test_an_older_pyarrow_refuses_what_it_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    class Older:
        def __init__(self, where: object, schema: object) -> None: ...

    monkeypatch.setattr(bloom_filters.pq, "ParquetWriter", Older)
    with pytest.raises(Unsupported, match=r"cannot honour .*bloom-filter-enabled\.column\.s: pyarrow"):
        written(**{"write.parquet.bloom-filter-enabled.column.s": "true"})
    monkeypatch.undo()
    monkeypatch.setattr(write_properties, "_PYARROW_TAKES", frozenset())
    with pytest.raises(Unsupported, match=r"cannot honour write\.parquet\.page-row-limit"):
        written(**{"write.parquet.page-row-limit": "10"})
    assert written().files


@pytest.mark.parametrize("mode", ["none", "hash", "range"])
def test_distribution_modes_are_taken(mode: str) -> None:
    assert written(**{"write.distribution-mode": mode}).files


DOCUMENTED = (
    "write.format.default",
    "write.target-file-size-bytes",
    "write.parquet.row-group-size-bytes",
    "page-size-bytes",
    "page-row-limit",
    "dict-size-bytes",
    "compression-codec",
    "compression-level",
    "bloom-filter-max-bytes",
    "write.metadata.metrics",
    "write.object-storage",
    "write.data.path",
    "write.location-provider.impl",
    "write.distribution-mode",
    "write.spark.fanout.enabled",
    "write.orc",
    "write.avro",
)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_table_of_properties_names_them_all(name: str) -> None:
    assert name in (write_properties.__doc__ or "")

"""Table properties: honoured, or refused by name."""

from __future__ import annotations

import pytest

from esker.arrow.write.write_properties import write_options
from esker.errors import EskerError, InvalidInput, Unsupported
from esker.write.definition.new_table import define_table
from esker.write.properties import KNOWN, PER_COLUMN, checked_properties, renamed_column

GOOD = {
    "write.format.default": "parquet",
    "write.parquet.compression-codec": "ZSTD",
    "write.parquet.compression-level": "3",
    "write.metadata.metrics.default": "truncate(16)",
    "write.metadata.metrics.column.a": "full",
    "write.parquet.bloom-filter-enabled.column.a": "true",
    "write.parquet.bloom-filter-fpp.column.a": "0.01",
    "write.delete.mode": "merge-on-read",
    "write.distribution-mode": "hash",
    "write.summary.partition-limit": "0",
    "commit.retry.num-retries": "0",
    "history.expire.min-snapshots-to-keep": "3",
    "gc.enabled": "false",
    "owner": "me",
    "write.my-own": "anything",
}


def test_good_properties_are_taken_as_they_are() -> None:
    assert checked_properties(GOOD) == GOOD
    assert checked_properties(None) == {}


@pytest.mark.parametrize(
    ("key", "value", "error", "said"),
    [
        ("write.format.default", "avro", Unsupported, "cannot honour write.format.default = 'avro'"),
        ("write.format.default", "csv", InvalidInput, "cannot use write.format.default = 'csv': it takes parquet"),
        ("write.target-file-size-bytes", "big", InvalidInput, "cannot use write.target-file-size-bytes = 'big'"),
        ("write.target-file-size-bytes", "0", InvalidInput, "it takes a whole number from 1"),
        ("write.wap.enabled", "yes", InvalidInput, "cannot use write.wap.enabled = 'yes': it takes true or false"),
        ("write.parquet.compression-codec", "lzo", Unsupported, "cannot honour write.parquet.compression-codec"),
        ("write.parquet.compression-level", "high", InvalidInput, "it takes a whole number"),
        ("write.metadata.metrics.default", "truncate(0)", InvalidInput, "it takes none, counts, truncate(n) or full"),
        ("write.metadata.metrics.column.a", "some", InvalidInput, "it takes none, counts, truncate(n) or full"),
        ("write.parquet.bloom-filter-fpp.column.a", "2", InvalidInput, "it takes a number between 0 and 1"),
        ("write.location-provider.impl", "x.Y", Unsupported, "it names a Java class; write.data.path chooses a place"),
        ("write.orc.stripe-size-bytes", "1", Unsupported, "ORC files are read here and not written"),
        ("write.summary.partition-limit", "5", Unsupported, "summaries name no partitions"),
        ("write.data.path", " ", InvalidInput, "it must not be empty; remove the property"),
        ("encryption.key-id", "k", Unsupported, "files cannot be encrypted here"),
        ("uuid", "x", InvalidInput, "cannot set uuid as a property: it is recorded in the table"),
        ("commit.retry.num-retires", "5", InvalidInput, "did you mean commit.retry.num-retries?"),
        (" ", "x", InvalidInput, "cannot set a property without a name"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(key: str, value: str, error: type[EskerError], said: str) -> None:
    with pytest.raises(error) as refusal:
        checked_properties({key: value})
    assert said in refusal.value.message
    assert refusal.value.property == key


def test_what_is_taken_here_is_taken_by_the_writer() -> None:
    made = define_table(schema="a int", location="memory://t", properties=GOOD)
    assert write_options(made, made.schema).target_file_bytes > 0


def test_every_known_key_has_a_value_that_is_judged() -> None:
    for key in [*KNOWN, *(prefix + "x" for prefix in PER_COLUMN)]:
        judged = []
        for value in ("true", "1", "none", "parquet", "copy-on-write", "x", "zstd", "0.5", "v1", "file", "snapshot"):
            try:
                checked_properties({key: value})
            except EskerError as error:
                judged.append(error.property)
        assert set(judged) <= {key}


def test_settings_of_a_column_follow_its_name() -> None:
    settings = {
        "write.metadata.metrics.column.a": "full",
        "write.metadata.metrics.column.a.b": "none",
        "write.metadata.metrics.column.ab": "counts",
        "write.parquet.bloom-filter-enabled.column.a": "true",
        "owner": "a",
    }
    renamed = renamed_column(settings, "a", "z")
    assert renamed["write.metadata.metrics.column.z"] == "full"
    assert renamed["write.metadata.metrics.column.z.b"] == "none"
    assert renamed["write.parquet.bloom-filter-enabled.column.z"] == "true"
    assert renamed_column(settings, "a", None) == {"write.metadata.metrics.column.ab": "counts", "owner": "a"}

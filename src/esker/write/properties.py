"""Table properties: parsed strictly, so that a typing error is not ignored, and checked when they are set.

A property of Iceberg's configuration page is either honoured or refused when it is set, never accepted and ignored.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping

from esker.errors import InvalidInput, Unsupported

# ---------------------------------------------------------------- reading values


def whole_number(properties: Mapping[str, str], key: str, default: int, *, at_least: int = 0) -> int:
    """Return a whole number. Raises ``InvalidInput`` with the property's name if its value is not one."""
    text = properties.get(key)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = at_least - 1
    if number < at_least:
        raise InvalidInput(f"cannot use {key} = {text!r}: it takes a whole number from {at_least}", property=key)
    return number


def switch(properties: Mapping[str, str], key: str, *, default: bool) -> bool:
    """Return true or false. Raises ``InvalidInput`` with the property's name if its value is neither."""
    text = properties.get(key)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise InvalidInput(f"cannot use {key} = {text!r}: it takes true or false", property=key)
    return text.strip().lower() == "true"


# ---------------------------------------------------------------- the properties of Iceberg's configuration page
#
# Keys that Iceberg does not have belong to the user, unless a key is so similar to a known one that it must be a typo.


Check = Callable[[str, str], None]


def _number(at_least: int = 0) -> Check:
    def check(key: str, text: str) -> None:
        whole_number({key: text}, key, 0, at_least=at_least)

    return check


def _boolean(key: str, text: str) -> None:
    switch({key: text}, key, default=False)


def _fraction(key: str, text: str) -> None:
    try:
        good = 0 < float(text) < 1
    except ValueError:
        good = False
    if not good:
        raise InvalidInput(f"cannot use {key} = {text!r}: it takes a number between 0 and 1", property=key)


def _text(key: str, text: str) -> None:
    if not text.strip():
        raise InvalidInput(f"cannot use {key} = {text!r}: it must not be empty; remove the property", property=key)


def _one_of(*taken: str, not_here: tuple[str, ...] = ()) -> Check:
    def check(key: str, text: str) -> None:
        folded = text.strip().lower()
        if folded in not_here:
            raise Unsupported(
                f"cannot honour {key} = {text!r}: this version of Esker takes {', '.join(taken)}",
                feature=folded,
                property=key,
            )
        if folded not in taken:
            raise InvalidInput(f"cannot use {key} = {text!r}: it takes {', '.join(taken)}", property=key)

    return check


def _refused(why: str) -> Check:
    def check(key: str, text: str) -> None:
        raise Unsupported(f"cannot honour {key} = {text!r}: {why}", feature=key, property=key)

    return check


def _only(allowed: str, why: str) -> Check:
    """A property that is refused unless its value is what Esker does anyway."""

    def check(key: str, text: str) -> None:
        if text.strip().lower() != allowed:
            raise Unsupported(f"cannot honour {key} = {text!r}: {why}", feature=key, property=key)

    return check


def _metrics(key: str, text: str) -> None:
    if not re.fullmatch(r"none|counts|full|truncate\(0*[1-9]\d{0,8}\)", text.strip().lower()):
        raise InvalidInput(f"cannot use {key} = {text!r}: it takes none, counts, truncate(n) or full", property=key)


def _level(key: str, text: str) -> None:
    if not re.fullmatch(r"null|-?\d{1,4}", text.strip().lower()):
        raise InvalidInput(f"cannot use {key} = {text!r}: it takes a whole number", property=key)


_MODE = _one_of("copy-on-write", "merge-on-read")
_ISOLATION = _one_of("serializable", "snapshot")
_DISTRIBUTION = _one_of("none", "hash", "range")
_PARQUET_CODEC = _one_of(
    "zstd", "gzip", "snappy", "brotli", "lz4", "lz4_raw", "uncompressed", "none", not_here=("lzo",)
)
_AVRO_CODEC = _one_of("gzip", "zlib", "deflate", "uncompressed", "none", not_here=("snappy", "zstd", "zstandard"))
_ONLY_PARQUET = _one_of("parquet", not_here=("orc", "avro"))
_ORC = _refused("ORC files are read here and not written")
_ENCRYPTION = _refused("files cannot be encrypted here")
_RESERVED = "it is recorded in the table's metadata, not as a property"

KNOWN: dict[str, Check] = {
    "write.format.default": _ONLY_PARQUET,
    "write.delete.format.default": _ONLY_PARQUET,
    "write.target-file-size-bytes": _number(1),
    "write.delete.target-file-size-bytes": _number(1),
    "write.parquet.row-group-size-bytes": _number(1),
    "write.parquet.row-group-limit": _number(1),
    "write.parquet.row-group-check-min-record-count": _number(1),
    "write.parquet.row-group-check-max-record-count": _number(1),
    "write.parquet.page-size-bytes": _number(1),
    "write.parquet.page-row-limit": _number(1),
    "write.parquet.page-version": _one_of("v1", "v2"),
    "write.parquet.dict-size-bytes": _number(1),
    "write.parquet.compression-codec": _PARQUET_CODEC,
    "write.parquet.compression-level": _level,
    "write.parquet.bloom-filter-max-bytes": _number(1),
    "write.parquet.bloom-filter-adaptive-enabled": _only("false", "pyarrow sizes bloom filters once"),
    "write.delete.parquet.compression-codec": _PARQUET_CODEC,
    "write.delete.parquet.compression-level": _level,
    "write.avro.compression-codec": _AVRO_CODEC,
    "write.avro.compression-level": _level,
    "write.location-provider.impl": _refused("it names a Java class; write.data.path chooses a place"),
    "write.data.path": _text,
    "write.metadata.path": _text,
    "write.folder-storage.path": _text,
    "write.object-storage.path": _text,
    "write.object-storage.enabled": _boolean,
    "write.object-storage.partitioned-paths": _boolean,
    "write.metadata.compression-codec": _one_of("none", "gzip"),
    "write.metadata.metrics.default": _metrics,
    "write.metadata.metrics.max-inferred-column-defaults": _number(),
    "write.metadata.delete-after-commit.enabled": _boolean,
    "write.metadata.previous-versions-max": _number(1),
    "write.summary.partition-limit": _only("0", "summaries name no partitions"),
    "write.distribution-mode": _DISTRIBUTION,
    "write.delete.distribution-mode": _DISTRIBUTION,
    "write.update.distribution-mode": _DISTRIBUTION,
    "write.merge.distribution-mode": _DISTRIBUTION,
    "write.delete.mode": _MODE,
    "write.update.mode": _MODE,
    "write.merge.mode": _MODE,
    "write.delete.isolation-level": _ISOLATION,
    "write.update.isolation-level": _ISOLATION,
    "write.merge.isolation-level": _ISOLATION,
    "write.delete.granularity": _one_of("partition", "file"),
    "write.wap.enabled": _boolean,
    "write.upsert.enabled": _boolean,
    "write.spark.fanout.enabled": _boolean,
    "write.spark.accept-any-schema": _only("false", "a new column is added with alter()"),
    "write.spark.auto-schema-evolution.enabled": _boolean,
    "write.spark.advisory-partition-size-bytes": _number(1),
    "commit.retry.num-retries": _number(),
    "commit.retry.min-wait-ms": _number(),
    "commit.retry.max-wait-ms": _number(),
    "commit.retry.total-timeout-ms": _number(),
    "commit.status-check.num-retries": _number(),
    "commit.status-check.min-wait-ms": _number(),
    "commit.status-check.max-wait-ms": _number(),
    "commit.status-check.total-timeout-ms": _number(),
    "commit.manifest-merge.enabled": _boolean,
    "commit.manifest.min-count-to-merge": _number(1),
    "commit.manifest.target-size-bytes": _number(1),
    "history.expire.max-snapshot-age-ms": _number(1),
    "history.expire.min-snapshots-to-keep": _number(1),
    "history.expire.max-ref-age-ms": _number(1),
    "gc.enabled": _boolean,
    "compatibility.snapshot-id-inheritance.enabled": _boolean,
    "read.split.target-size": _number(1),
    "read.split.metadata-target-size": _number(1),
    "read.split.planning-lookback": _number(1),
    "read.split.open-file-cost": _number(),
    "read.split.adaptive-size.enabled": _boolean,
    "read.parquet.vectorization.enabled": _boolean,
    "read.parquet.vectorization.batch-size": _number(1),
    "read.orc.vectorization.enabled": _boolean,
    "read.orc.vectorization.batch-size": _number(1),
    "encryption.key-id": _ENCRYPTION,
    "encryption.data-key-length": _ENCRYPTION,
}
PER_COLUMN: dict[str, Check] = {
    "write.metadata.metrics.column.": _metrics,
    "write.parquet.bloom-filter-enabled.column.": _boolean,
    "write.parquet.bloom-filter-fpp.column.": _fraction,
    "write.parquet.bloom-filter-ndv.column.": _number(1),
    "write.parquet.stats-enabled.column.": _boolean,
    "write.parquet.dict-encoding-enabled.column.": _boolean,
    "write.orc.": _ORC,
}
RESERVED: dict[str, str] = {
    "format-version": "change it with upgrade_format(), or give format_version when the table is created",
    "uuid": _RESERVED,
    "snapshot-count": _RESERVED,
    "current-snapshot-id": _RESERVED,
    "current-snapshot-summary": _RESERVED,
    "current-snapshot-timestamp-ms": _RESERVED,
    "current-schema": _RESERVED,
    "default-partition-spec": _RESERVED,
    "default-sort-order": _RESERVED,
    "sort-order": "WRITE ORDERED BY and set_sort_order() change it",
    "identifier-fields": "SET IDENTIFIER FIELDS and set_identifier_fields() change them",
}


def checked_properties(given: Mapping[str, str] | None) -> dict[str, str]:
    """The properties, checked. Raises an error with the first that cannot be set."""
    found = dict(given or {})
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInput(
                f"cannot set the property {key!r} to {value!r}: keys and values must be text", property=key
            )
        if not key.strip():
            raise InvalidInput("cannot set a property without a name", property=key)
        if key in RESERVED:
            raise InvalidInput(f"cannot set {key} as a property: {RESERVED[key]}", property=key)
        _check(key, value)
    return found


def _check(key: str, value: str) -> None:
    if key in KNOWN:
        return KNOWN[key](key, value)
    for prefix, check in PER_COLUMN.items():
        if key.startswith(prefix):
            return check(key, value)
    if key.startswith(("write.", "commit.", "history.")):
        near = difflib.get_close_matches(key, KNOWN, n=1, cutoff=0.92)
        if near:
            raise InvalidInput(f"cannot set {key}: did you mean {near[0]}?", property=key)
    return None


def renamed_column(properties: Mapping[str, str], old: str, new: str | None) -> dict[str, str]:
    """Rename the properties of a column, or remove them if ``new`` is None; also those of columns inside it."""
    found: dict[str, str] = {}
    for key, value in properties.items():
        prefix = next((prefix for prefix in PER_COLUMN if prefix.endswith(".column.") and key.startswith(prefix)), None)
        name = None if prefix is None else key.removeprefix(prefix)
        if name is None or not (name == old or name.startswith(old + ".")):
            found[key] = value
        elif new is not None:
            found[f"{prefix}{new}{name.removeprefix(old)}"] = value
    return found

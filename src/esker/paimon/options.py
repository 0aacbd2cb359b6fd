"""Options of a Paimon table that change what a read returns: how rows are merged, and what Esker refuses."""

from __future__ import annotations

import re

from esker.errors import Unsupported
from esker.paimon.metadata.table_schema import TableSchema
from esker.ports.merge import Aggregate, MergeEngine, MergeRule, SequenceGroup

_REFUSED = (  # option, the values that are harmless
    ("data-evolution.enabled", ("false",)),
    ("type", ("table",)),
    ("sequence.snapshot-ordering", ("false",)),
    ("pk-clustering-override", ("false",)),
    ("data-file.path-directory", ()),
    ("sequence.field.sort-order", ("ascending", "descending")),
    ("scan.fallback-branch", ()),
    ("scan.fallback-snapshot-branch", ()),
    ("scan.fallback-delta-branch", ()),
    ("scan.primary-branch", ()),
    ("branch", ("main",)),
    ("batch-scan-mode", ("none",)),
    ("table-read.sequence-number.enabled", ("false",)),
    ("key-value.sequence_number.enabled", ("false",)),
    ("query-auth.enabled", ("false",)),
    ("chain-table.enabled", ("false",)),
    ("partial-update.remove-record-on-sequence-group", ()),
    ("incremental-between", ()),
    ("incremental-between-timestamp", ()),
    ("incremental-to-auto-tag", ()),
    ("scan.mode", ("default", "latest-full", "latest")),
    ("scan.snapshot-id", ()),
    ("scan.tag-name", ()),
    ("scan.version", ()),
    ("scan.watermark", ()),
    ("scan.timestamp", ()),
    ("scan.timestamp-millis", ()),
    ("scan.file-creation-time-millis", ()),
    ("scan.creation-time-millis", ()),
)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32}
_DEFAULT = re.compile(r"fields\..+\.default-value")  # versions up to 1.1 fill it in, newer ones do not
_GROUP = re.compile(r"fields\.(.+)\.sequence-group")
_FUNCTION = re.compile(r"fields\.(.+)\.aggregate-function")


def check_readable(schema: TableSchema) -> None:
    """Raise ``Unsupported`` with the name of an option, if the table cannot be read right with it."""
    for name, harmless in _REFUSED:
        value = schema.options.get(name)
        if value is not None and value.strip().lower() not in harmless:
            raise refusal(name, value)
    default = next((name for name in schema.options if _DEFAULT.fullmatch(name)), None)
    if default is not None:
        raise refusal(default, schema.options[default])
    if schema.primary_keys:
        merge_rule(schema)


def refusal(option: str, value: str) -> Unsupported:
    """The error for an option that Esker does not have."""
    return Unsupported(
        f"cannot read this table: its option {option} is {value!r}, and Esker cannot read such a table right yet",
        feature=option,
    )


def skips_level_zero(schema: TableSchema) -> bool:
    """Whether new files are invisible until a compaction moves them to another level."""
    if not schema.primary_keys:
        return False
    vectors = schema.is_set("deletion-vectors.enabled") and not schema.is_set("deletion-vectors.merge-on-read")
    return vectors or engine_of(schema) is MergeEngine.FIRST_ROW


def engine_of(schema: TableSchema) -> MergeEngine:
    """The merge engine. Raises ``Unsupported`` for one that is not known."""
    text = schema.option("merge-engine", "deduplicate").strip().lower()
    try:
        return MergeEngine(text)
    except ValueError:
        raise refusal("merge-engine", text) from None


def merge_rule(schema: TableSchema) -> MergeRule:
    """How rows with the same key are merged. Raises ``Unsupported`` for a function that is not known."""
    engine = engine_of(schema)
    is_aggregation = engine is MergeEngine.AGGREGATION
    # Java does not look at ignore-delete where it aggregates
    ignored = () if is_aggregation else ("ignore-delete", *(f"{name.value}.ignore-delete" for name in MergeEngine))
    functions = _functions(schema, order_names(schema)) if is_aggregation else {}
    return MergeRule(
        engine=engine,
        keys=tuple(field.id for field in schema.key_fields),
        order=tuple(schema.by_name[name].id for name in order_names(schema)),
        descending=schema.option("sequence.field.sort-order").strip().lower() == "descending",
        groups=_groups(schema) if engine is MergeEngine.PARTIAL_UPDATE else (),
        functions=functions,
        sum_bits={
            id_: _BITS[schema.by_id[id_].type.root]
            for id_, function in functions.items()
            if function is Aggregate.SUM and schema.by_id[id_].type.root in _BITS
        },
        ignores_deletes=any(map(schema.is_set, ignored)),
        deletes_whole_rows=schema.is_set(f"{engine.value}.remove-record-on-delete"),
    )


def order_names(schema: TableSchema) -> tuple[str, ...]:
    """The columns of ``sequence.field``. Raises ``Unsupported`` for one that the table does not have."""
    value = schema.option("sequence.field")
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if any(name not in schema.by_name for name in names):
        raise refusal("sequence.field", value)
    return names


def _groups(schema: TableSchema) -> tuple[SequenceGroup, ...]:
    groups = []
    for option, value in schema.options.items():
        if _FUNCTION.fullmatch(option) or option == "fields.default-aggregate-function":
            raise refusal(option, value)  # functions inside of a partial update
        match = _GROUP.fullmatch(option)
        if match is not None:
            order = [name.strip() for name in match[1].split(",")]
            columns = [name.strip() for name in value.split(",") if name.strip()]
            groups.append(
                SequenceGroup(
                    tuple(schema.by_name[name].id for name in order),
                    tuple(schema.by_name[name].id for name in columns),
                )
            )
    return tuple(groups)


def _functions(schema: TableSchema, order: tuple[str, ...]) -> dict[int, Aggregate]:
    default = schema.option("fields.default-aggregate-function", Aggregate.LAST_NOT_NULL.value)
    found = {}
    for field in schema.fields:
        option = f"fields.{field.name}.aggregate-function"
        if field.name in order:
            found[field.id] = Aggregate.LAST
        elif field.name not in schema.primary_keys:
            text = schema.option(option, default).strip().lower()
            try:
                found[field.id] = Aggregate(text)
            except ValueError:
                named = option if option in schema.options else "fields.default-aggregate-function"
                raise refusal(named, text) from None
    return found

"""Rewrites a query over lake tables as a template for Spark: references become names of frames.

``spark.sql`` accepts frames by name in braces, on classic sessions and on Connect. So braces in the text are doubled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock

from esker.errors import EskerError, InvalidInput
from esker.model.predicates.bind import bind
from esker.model.predicates.predicate import Bound, conjuncts
from esker.model.predicates.unbound_predicate import AllOf, Unbound
from esker.model.schema import Schema
from esker.read.metadata_columns import metadata_column
from esker.read.resolve_snapshot import resolve_snapshot
from esker.read.scan import Scan, merge_rule_of
from esker.read.scan_changes import ChangeScan
from esker.spark.expressions.spark_predicate import Reading, predicate_of, rejects_nulls
from esker.spark.sql.changes.write_audit_publish import as_read
from esker.spark.sql.grammar.statements import Query
from esker.spark.sql.grammar.table_references import Node, Reference
from esker.spark.sql.grammar.words import Span, Words
from esker.spark.sql.lake_names import CHANGES, Found, LakeNames
from esker.spark.sql.queries.answer_from_metadata import answer_text, asked_aggregates, conjunct_count
from esker.spark.sql.queries.expand_views import with_views
from esker.spark.sql.queries.hidden_columns import HiddenColumns, find_hidden_columns
from esker.spark.sql.queries.proved_conditions import condition_spans
from esker.spark.sql.queries.prune_conditions import Condition, find_conditions
from esker.spark.sql.queries.query_text import Edits, QueryText, Travel, is_name
from esker.table import Table
from esker.view import View


@dataclass(frozen=True, slots=True)
class MetadataRows:
    """A metadata table, of the current snapshot or another."""

    table: Table
    name: str
    snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class ScanKey:
    """What the rows of a scan depend on."""

    version: Hashable  # the table's metadata file, the snapshot and the columns
    filter: str


Rows = Scan | ChangeScan | MetadataRows
_KEPT = 64  # queries


@dataclass(slots=True)
class Rewritten:
    """The text for Spark with ``{names}`` in it, and the rows of each name."""

    template: str
    frames: dict[str, Rows] = field(default_factory=dict)
    keys: dict[str, Hashable] = field(default_factory=dict)  # what identifies the rows of each name
    conditions: tuple[FrameCondition, ...] = ()
    without: Callable[[tuple[Node, ...]], str] | None = None  # the template with TRUE for these conditions

    def shortened(self, unproved: Mapping[str, frozenset[Bound]]) -> str:
        """Return the template without the conditions that the files of a frame prove.

        ``unproved`` has, for each frame, the conditions that some of its files do not prove.
        """
        proved = tuple(
            one.node for one in self.conditions if one.frame in unproved and not one.parts & unproved[one.frame]
        )
        return self.template if not proved or self.without is None else self.without(proved)


@dataclass(frozen=True, slots=True)
class FrameCondition:
    """A condition of the query on the rows of one frame: its node in the tree, and what it means."""

    frame: str
    node: Node
    parts: frozenset[Bound]


class KnownQueries:
    """The queries that were rewritten last. A query is the same as long as its tables have the same versions."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Rewritten] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Rewritten]) -> Rewritten:
        """Return what belongs to the key. Make it if it is not known."""
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                return found
        made = make()
        with self._lock:
            self._known[key] = made
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return made


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a query needs to be read: the lake's names, the session's time zone, and a function that computes times."""

    names: LakeNames
    zone: Callable[[], str]
    moment: Callable[[str], int]  # computes the text of an expression, as milliseconds from 1970


def rewrite(query: Query, around: Surroundings, known: KnownQueries | None = None) -> Rewritten:
    """Return the query for Spark. If it names no table of the lake, it is unchanged and has no frames."""
    try:
        read, tree, references = _parsed(query)
    except InvalidInput:
        if _names_lake_table(QueryText.of(query).words, query.body, around.names):
            raise
        return Rewritten(_escaped(query.text))
    found = {ref: one for ref in references if (one := _find(ref, around.names)) is not None}
    views = {ref: one for ref, one in found.items() if isinstance(one, View)}
    if views:
        return rewrite(with_views(query, read, views, around.names), around, known)
    targets = {
        ref: _targeted(ref, one, read.travels.get(ref.span.end), around)
        for ref, one in found.items()
        if isinstance(one, Found)
    }
    if known is None or not targets:
        return _rewritten(read, tree, references, targets, around)
    key = (query, around.zone(), *((ref.span, target.version) for ref, target in targets.items()))
    return known.get(key, lambda: _rewritten(read, tree, references, targets, around))


@lru_cache(maxsize=_KEPT)
def _parsed(query: Query) -> tuple[QueryText, Node, list[Reference]]:
    """Return the tree of a query, which nobody changes. Raises ``InvalidInput`` if sqlglot cannot parse it."""
    read = QueryText.of(query)
    return read, *read.parsed()


def _rewritten(
    read: QueryText,
    tree: Node,
    references: list[Reference],
    targets: dict[Reference, _Target],
    around: Surroundings,
) -> Rewritten:
    # sqlglot merges the steps of a pipe into one SELECT, where a LIMIT before a WHERE looks like one after it
    piped = any(token.is_sign and token.text == "|>" for token in read.words.tokens.tokens)
    conditions = {} if piped else find_conditions(tree, list(targets), lambda ref: _schema(targets[ref]))
    hidden = find_hidden_columns(read, list(targets), lambda ref: _columns(targets[ref]))
    for ref in hidden.of:
        if targets[ref].found.metadata_table == CHANGES:
            raise hidden.refused(f"{targets[ref].found.table.name}.{CHANGES}", "read them from the table itself")
    if not piped and not hidden.of and (answer := _answer(tree, references, targets, conditions, around)) is not None:
        return Rewritten(_escaped(answer))
    rows = {ref: _rows_of(targets[ref], conditions.get(ref, []), hidden.of.get(ref, []), around) for ref in targets}
    return _written(read, tree, rows, hidden)


def _answer(
    tree: Node,
    references: list[Reference],
    targets: dict[Reference, _Target],
    conditions: dict[Reference, list[Condition]],
    around: Surroundings,
) -> str | None:
    """Return a query with the answer, if metadata has it."""
    if len(references) != 1 or len(targets) != 1:
        return None
    ((reference, target),) = targets.items()
    if target.schema is None or target.found.metadata_table is not None:
        return None
    asked = asked_aggregates(tree, reference, target.schema)
    own = conditions.get(reference, [])
    if asked is None or len(own) != conjunct_count(tree):
        return None
    terms = _terms(own, target.schema, around)
    if len(terms) != len(own):
        return None
    rows = _rows(target, _all(terms), [])
    return answer_text(rows, asked) if isinstance(rows, Scan) else None


def _names_lake_table(words: Words, body: Span, names: LakeNames) -> bool:
    words.tokens.at = 0
    while (token := words.peek()) is not None:
        if token.start < body.start or not is_name(token):
            words.next()
            continue
        try:
            if names.holds(words.name().parts):
                return True
        except InvalidInput:
            continue
    return False


@dataclass(frozen=True, slots=True)
class _Target:
    """A table at a version, or one of its metadata tables."""

    found: Found
    schema: Schema | None

    @property
    def version(self) -> Hashable:
        """What the rows depend on: the table's metadata file, and what is read from it."""
        found, table = self.found, self.found.table
        what = (found.metadata_table, found.snapshot_id, found.as_of_ms, found.ref)
        return (table.uuid, table.metadata_location, *what)


def _find(reference: Reference, names: LakeNames) -> Found | View | None:
    found = names.find(reference.parts) or names.find_view(reference.parts)
    if found is None and names.is_missing_from_lake(reference.parts):
        names.lake.table(".".join(names.own(reference.parts)))  # raises with similar names
    return found


def _targeted(reference: Reference, found: Found, travel: Travel | None, around: Surroundings) -> _Target:
    if travel is not None:
        if found.ref is not None or found.snapshot_id is not None or found.as_of_ms is not None:
            raise InvalidInput(f"cannot read {'.'.join(reference.parts)} at two versions: its name has one already")
        found = _travelled(found, travel, around)
    else:
        found = as_read(found, around.names.spark)
    if found.metadata_table not in (None, CHANGES):
        return _Target(found, None)
    resolved = resolve_snapshot(
        found.table.metadata, snapshot_id=found.snapshot_id, as_of=found.as_of_ms, ref=found.ref
    )
    return _Target(found, resolved.schema)


def _travelled(found: Found, travel: Travel, around: Surroundings) -> Found:
    table, name = found.table, found.metadata_table
    if travel.snapshot_id is not None:
        return Found(table, name, snapshot_id=travel.snapshot_id)
    if travel.time is not None:
        return Found(table, name, as_of_ms=around.moment(travel.time))
    ref = travel.ref or ""
    # a snapshot's id has precedence over a ref whose name is a number, as in Iceberg's runtime
    if ref.isascii() and ref.isdecimal():
        is_snapshot = any(snapshot.snapshot_id == int(ref) for snapshot in table.snapshots)
        if is_snapshot or ref not in table.refs:
            return Found(table, name, snapshot_id=int(ref))
    return Found(table, name, ref=ref)


def _schema(target: _Target) -> Schema | None:
    return target.schema


def _columns(target: _Target) -> list[str] | None:
    """Return the columns of a table. Returns None for a metadata table, which hides none."""
    return None if target.schema is None else [column.name for column in target.schema.fields]


def _rows(target: _Target, where: Unbound | None, hidden: list[str]) -> Rows:
    found = target.found
    if found.metadata_table is None:
        scan = found.table.scan(where, snapshot_id=found.snapshot_id, as_of=found.as_of_ms, ref=found.ref)
        more = [column for name in hidden if (column := metadata_column(name, scan.metadata)) is not None]
        return replace(scan, projection=replace(scan.projection, fields=(*scan.projection.fields, *more)))
    travels = (found.snapshot_id, found.as_of_ms, found.ref) != (None, None, None)
    if not travels and found.metadata_table == CHANGES:
        return found.table.scan_changes(None, where=where)
    if not travels:
        return MetadataRows(found.table, found.metadata_table, None)
    if found.metadata_table not in found.table.inspect.snapshot_tables:
        raise InvalidInput(
            f"cannot read {found.table.name}.{found.metadata_table} as of a version: it describes all versions"
        )
    snapshot = resolve_snapshot(
        found.table.metadata, snapshot_id=found.snapshot_id, as_of=found.as_of_ms, ref=found.ref
    ).snapshot
    return MetadataRows(found.table, found.metadata_table, None if snapshot is None else snapshot.snapshot_id)


@dataclass(frozen=True, slots=True)
class _RowsOf:
    """The rows of a reference, what identifies them, and the conditions that they may prove."""

    key: Hashable
    rows: Rows
    conditions: tuple[tuple[Node, frozenset[Bound]], ...]


def _rows_of(target: _Target, conditions: list[Condition], hidden: list[str], around: Surroundings) -> _RowsOf:
    terms = _terms(conditions, target.schema, around)
    rows = _rows(target, _all(terms), hidden)
    parts: list[tuple[Node, frozenset[Bound]]] = []
    if isinstance(rows, Scan) and merge_rule_of(rows) is None:  # a row that is merged of several may be another one
        schema = rows.resolved.schema
        parts = [(one.node, frozenset(conjuncts(bind(term, schema)))) for one, term in terms if not one.nullable]
    return _RowsOf(_key(target.found.table, rows), rows, tuple(parts))


def _key(table: Table, rows: Rows) -> Hashable:
    """Return what the rows depend on: the table's metadata file, and what is read from it."""
    version = (table.uuid, table.metadata_location)
    if isinstance(rows, MetadataRows):
        return (*version, rows.name, rows.snapshot_id)
    if isinstance(rows, ChangeScan):
        return (*version, CHANGES, repr(rows.filter))
    snapshot = rows.resolved.snapshot
    columns = tuple(column.id for column in rows.projection.fields)
    read = (*version, snapshot and snapshot.snapshot_id, rows.resolved.schema.schema_id, columns)
    return ScanKey(read, repr(rows.filter))


def _terms(conditions: list[Condition], schema: Schema | None, around: Surroundings) -> list[tuple[Condition, Unbound]]:
    """Return the conditions that Esker evaluates as Spark does. Spark alone evaluates the others."""
    terms: list[tuple[Condition, Unbound]] = []
    for condition in conditions:
        assert schema is not None
        try:
            term = predicate_of(condition.text, schema, Reading(zone=around.zone(), strict=True))
        except EskerError:
            continue
        if not condition.nullable or rejects_nulls(term):
            terms.append((condition, term))
    return terms


def _all(terms: list[tuple[Condition, Unbound]]) -> Unbound | None:
    return AllOf(tuple(term for _, term in terms)) if terms else None


def _written(read: QueryText, tree: Node, rows_of: dict[Reference, _RowsOf], hidden: HiddenColumns) -> Rewritten:
    """Return the template. Each reference becomes the name of a frame, and equal rows share one frame."""
    edits = Edits(read.words)
    names: dict[Hashable, str] = {}
    frames: dict[str, Rows] = {}
    conditions: list[FrameCondition] = []
    for reference, of in rows_of.items():
        if of.key not in names:
            names[of.key] = f"esker_{len(names)}"
            frames[names[of.key]] = of.rows
        conditions += [FrameCondition(names[of.key], node, parts) for node, parts in of.conditions]
        end = read.end_of(reference)
        edits.replace(reference.span.start, end, "{" + names[of.key] + "}")
        if reference.span.start not in read.bare:
            edits.add_alias(reference, end)
    for reference in rows_of:
        if reference.alias is None:
            edits.shorten_columns(reference)
    hidden.write(edits, read.words.tokens.tokens)

    @lru_cache(maxsize=4)
    def without(proved: tuple[Node, ...]) -> str:
        return edits.with_true(condition_spans(read, tree, proved)).done(_escaped)

    keys = {name: key for key, name in names.items()}
    return Rewritten(edits.done(_escaped), frames, keys, tuple(conditions), without)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")

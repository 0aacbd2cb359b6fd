"""A query over lake tables as a template for Spark: references become names of frames, and nothing else changes.

``spark.sql`` takes frames by name in braces, on classic sessions and on Connect alike; so braces of the text are
doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from esker.errors import EskerError, InvalidInput
from esker.model.predicate_sql import quote_name
from esker.model.schema import Schema
from esker.model.token_stream import Token
from esker.model.unbound import AllOf, Unbound
from esker.read.resolve_snapshot import resolve_snapshot
from esker.read.scan import Scan
from esker.spark.sql.conditions import Condition, find_conditions
from esker.spark.sql.lake_names import SNAPSHOT_TABLES, Found, LakeNames
from esker.spark.sql.references import Reference, find_references, parse_query
from esker.spark.sql.spark_predicate import Reading, predicate_of, rejects_nulls
from esker.spark.sql.statements import Query
from esker.spark.sql.time_travel import Travel, find_travels, without_travels
from esker.spark.sql.words import Span, Words, blanked
from esker.table import Table

_SET_WORDS = ("union", "all", "except", "minus", "intersect", "distinct")


@dataclass(frozen=True, slots=True)
class MetadataRows:
    """One of the metadata tables, of the current snapshot or another."""

    table: Table
    name: str
    snapshot_id: int | None


Rows = Scan | MetadataRows


@dataclass(slots=True)
class Rewritten:
    """What Spark is given: text with ``{names}`` in it, and the rows each name stands for."""

    template: str
    frames: dict[str, Rows] = field(default_factory=dict)
    keys: dict[str, Hashable] = field(default_factory=dict)  # what tells the rows of each name from any others


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a query is read in: the lake's names, the session's zone, and who computes times."""

    names: LakeNames
    zone: Callable[[], str]
    moment: Callable[[str], int]  # the text of an expression, as milliseconds from 1970


def rewrite(query: Query, around: Surroundings) -> Rewritten:
    """The query for Spark; itself, with no frames, where it names no table of the lake."""
    words = Words(query.text)
    travels = find_travels(words, query.body)
    text, bare = _readable(words, query, travels)
    try:
        tree = parse_query(text)
    except InvalidInput:
        if _names_lake_table(words, query.body, around.names):
            raise
        return Rewritten(_escaped(query.text))
    references = find_references(tree, text)
    found = {ref: one for ref in references if (one := _find(ref, around.names)) is not None}
    targets = {ref: _targeted(ref, one, travels.get(ref.span.end), around) for ref, one in found.items()}
    # sqlglot folds the steps of a pipe into one SELECT, and a LIMIT before a WHERE looks like one behind it
    piped = any(token.is_sign and token.text == "|>" for token in words.tokens.tokens)
    conditions = {} if piped else find_conditions(tree, list(found), lambda ref: _schema(targets[ref]))
    edits = _Edits(words)
    for ref, target in targets.items():
        rows = _rows(target, _where(conditions.get(ref, []), _schema(target), around))
        key = _key(target.found.table, rows)
        edits.replace(ref, travels.get(ref.span.end), rows, key, takes_alias=ref.span.start not in bare)
    return edits.done([ref for ref in found if ref.alias is None])


# ---------------------------------------------------------------- reading


def _readable(words: Words, query: Query, travels: dict[int, Travel]) -> tuple[str, set[int]]:
    """The query as sqlglot knows SQL, every place kept; and where names stand that take no alias.

    Time travel becomes blanks, and ``TABLE t``, a query by itself, becomes ``FROM  t``.
    """
    text = without_travels(query.text, travels)
    text = blanked(text[: query.body.start]) + text[query.body.start :]
    bare: set[int] = set()
    tokens = words.tokens.tokens
    for at, token in enumerate(tokens[:-1]):
        if token.word != "table" or token.start < query.body.start or not _is_name(tokens[at + 1]):
            continue
        before = tokens[at - 1] if at else None
        opens = before is None or before.start < query.body.start or before.text == "(" or before.word in _SET_WORDS
        if opens:
            text = text[: token.start] + "FROM " + text[token.end + 1 :]
            bare.add(tokens[at + 1].start)
    return text, bare


def _is_name(token: Token) -> bool:
    return token.is_quoted or token.word is not None


def _names_lake_table(words: Words, body: Span, names: LakeNames) -> bool:
    words.tokens.at = 0
    while (token := words.peek()) is not None:
        if token.start < body.start or not _is_name(token):
            words.next()
            continue
        try:
            if names.holds(words.name().parts):
                return True
        except InvalidInput:
            continue
    return False


# ---------------------------------------------------------------- what is meant


@dataclass(frozen=True, slots=True)
class _Target:
    """A table at a version, or one of its metadata tables."""

    found: Found
    schema: Schema | None


def _find(reference: Reference, names: LakeNames) -> Found | None:
    found = names.find(reference.parts)
    if found is None and names.is_missing_from_lake(reference.parts):
        names.lake.table(".".join(reference.parts))  # raises, and says what there is
    return found


def _targeted(reference: Reference, found: Found, travel: Travel | None, around: Surroundings) -> _Target:
    if travel is not None:
        if found.ref is not None or found.snapshot_id is not None or found.as_of_ms is not None:
            raise InvalidInput(f"cannot read {'.'.join(reference.parts)} at two versions: its name has one already")
        found = _travelled(found, travel, around)
    if found.metadata_table is not None:
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
    if ref not in table.refs and ref.isascii() and ref.isdecimal():
        return Found(table, name, snapshot_id=int(ref))
    return Found(table, name, ref=ref)


def _schema(target: _Target) -> Schema | None:
    return target.schema


def _rows(target: _Target, where: Unbound | None) -> Rows:
    found = target.found
    if found.metadata_table is None:
        return found.table.scan(where, snapshot_id=found.snapshot_id, as_of=found.as_of_ms, ref=found.ref)
    travels = (found.snapshot_id, found.as_of_ms, found.ref) != (None, None, None)
    if not travels:
        return MetadataRows(found.table, found.metadata_table, None)
    if found.metadata_table not in SNAPSHOT_TABLES:
        raise InvalidInput(
            f"cannot read {found.table.name}.{found.metadata_table} as of a version: it is about all of them"
        )
    snapshot = resolve_snapshot(
        found.table.metadata, snapshot_id=found.snapshot_id, as_of=found.as_of_ms, ref=found.ref
    ).snapshot
    return MetadataRows(found.table, found.metadata_table, None if snapshot is None else snapshot.snapshot_id)


def _key(table: Table, rows: Rows) -> Hashable:
    """What the rows depend on: the table's version, which a metadata file is, and what is asked of it."""
    version = (table.uuid, table.metadata_location)
    if isinstance(rows, MetadataRows):
        return (*version, rows.name, rows.snapshot_id)
    snapshot = rows.resolved.snapshot
    return (*version, snapshot and snapshot.snapshot_id, rows.resolved.schema.schema_id, repr(rows.filter))


def _where(conditions: list[Condition], schema: Schema | None, around: Surroundings) -> Unbound | None:
    """The conditions that Esker understands as Spark does; the others are for Spark alone."""
    terms: list[Unbound] = []
    for condition in conditions:
        assert schema is not None
        try:
            term = predicate_of(condition.text, schema, Reading(zone=around.zone(), strict=True))
        except EskerError:
            continue
        if not condition.nullable or rejects_nulls(term):
            terms.append(term)
    return AllOf(tuple(terms)) if terms else None


# ---------------------------------------------------------------- writing


class _Edits:
    """Replacements in the text, by place."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.edits: list[tuple[int, int, str]] = []
        self.frames: dict[str, Rows] = {}
        self.names: dict[Hashable, str] = {}

    def replace(
        self, reference: Reference, travel: Travel | None, rows: Rows, key: Hashable, *, takes_alias: bool
    ) -> None:
        """A reference by the name of its frame, under the alias that it has by itself."""
        end = travel.span.end if travel is not None else reference.span.end
        self.edits.append((reference.span.start, end, "{" + self._frame(rows, key) + "}"))
        if reference.alias is None and takes_alias:
            at = self._behind_sample(end)
            self.edits.append((at, at, f" AS {quote_name(reference.parts[-1])}"))

    def done(self, unaliased: list[Reference]) -> Rewritten:
        """The template."""
        for reference in unaliased:
            self._shorten_columns(reference)
        pieces, at = [], 0
        for start, end, new in sorted(self.edits):
            pieces += [_escaped(self.words.text[at:start]), new]
            at = end
        keys = {name: key for key, name in self.names.items()}
        return Rewritten("".join([*pieces, _escaped(self.words.text[at:])]), self.frames, keys)

    def _frame(self, rows: Rows, key: Hashable) -> str:
        """Rows that are the same are one frame."""
        if key not in self.names:
            self.names[key] = f"esker_{len(self.names)}"
            self.frames[self.names[key]] = rows
        return self.names[key]

    def _behind_sample(self, end: int) -> int:
        """An alias stands behind TABLESAMPLE (…) [REPEATABLE (…)]."""
        tokens = self.words.tokens.tokens
        at = next((n for n, token in enumerate(tokens) if token.start >= end), len(tokens))
        while at < len(tokens) and tokens[at].word in ("tablesample", "repeatable"):
            closing = _closing(tokens, at + 1)
            if closing is None:
                break
            end, at = tokens[closing].end + 1, closing + 1
        return end

    def _shorten_columns(self, reference: Reference) -> None:
        """``sales.orders.id`` becomes ``orders.id``: the frame has the table's last name only."""
        wanted = [part.lower() for part in reference.parts]
        tokens = self.words.tokens.tokens
        spans = {start for start, _, _ in self.edits}
        width = 2 * len(wanted)
        for at in range(len(tokens) - width + 1):
            run = tokens[at : at + width]
            names = [token.text.lower() for token in run[::2]]
            dots = all(token.is_sign and token.text == "." for token in run[1::2])
            follows = at > 0 and tokens[at - 1].is_sign and tokens[at - 1].text == "."
            if dots and names == wanted and not follows and run[0].start not in spans and len(wanted) > 1:
                self.edits.append((run[0].start, run[-2].start, ""))


def _closing(tokens: list[Token], opening: int) -> int | None:
    """The parenthesis that closes the one at ``opening``."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")") if tokens[at].is_sign else 0
        if depth == 0:
            return at
    return None


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")

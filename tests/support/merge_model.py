"""MERGE in plain Python over lists of rows, and random merges to hold Spark's against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

Row = dict[str, Any]
Of = Callable[[Row, Row], Any]
COLUMNS = "k bigint, g string, v int"
NOTHING: Row = {"k": None, "g": None, "v": None}


@dataclass(frozen=True)
class Said:
    """An expression in SQL, and the same in Python; None is null, and no condition holds of it."""

    sql: str
    of: Of


@dataclass(frozen=True)
class Rule:
    """A clause: whom it is about (matched, insert, rest), what it does, when."""

    about: str
    action: str
    values: dict[str, Said] | None = None
    condition: Said | None = None


class SeveralMatch(Exception):
    """Two rows of the source would change one row."""


def _plus(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other


def _more(one: Any, than: Any) -> bool:
    return one is not None and than is not None and bool(one > than)


ON = {
    "t.k = s.k": lambda t, s: t["k"] is not None and t["k"] == s["k"],
    "t.k <=> s.k": lambda t, s: t["k"] == s["k"],
    "t.k = s.k AND t.g = s.g": lambda t, s: None not in (t["k"], t["g"]) and (t["k"], t["g"]) == (s["k"], s["g"]),
    "t.k = s.k AND t.v > 2": lambda t, s: t["k"] is not None and t["k"] == s["k"] and _more(t["v"], 2),
}
BOTH = [
    Said("s.v > t.v", lambda t, s: _more(s["v"], t["v"])),
    Said("t.g = 'a'", lambda t, s: t["g"] == "a"),
    Said("s.v IS NULL OR s.v < 5", lambda t, s: s["v"] is None or s["v"] < 5),
]
SOURCE = [
    Said("s.v > 3", lambda t, s: _more(s["v"], 3)),
    Said("s.g <> 'b'", lambda t, s: s["g"] is not None and s["g"] != "b"),
]
TABLE = [
    Said("t.v > 4", lambda t, s: _more(t["v"], 4)),
    Said("t.g = 'c'", lambda t, s: t["g"] == "c"),
]
SETS: list[dict[str, Said] | None] = [
    None,
    {"v": Said("t.v + s.v", lambda t, s: _plus(t["v"], s["v"]))},
    {"g": Said("s.g", lambda t, s: s["g"]), "v": Said("NULL", lambda t, s: None)},
]
INSERTS: list[dict[str, Said] | None] = [
    None,
    {"k": Said("s.k + 100", lambda t, s: _plus(s["k"], 100)), "g": Said("'new'", lambda t, s: "new")},
]
RESTS: list[dict[str, Said] | None] = [{"v": Said("t.v + 1", lambda t, s: _plus(t["v"], 1))}]


def random_rows(random: Random, count: int, keys: int) -> list[Row]:
    """Rows with some nulls; a key may occur often."""
    return [
        {
            "k": random.choice([None, *range(keys)]),
            "g": random.choice("abc"),
            "v": random.choice([None, *range(8)]),
        }
        for _ in range(count)
    ]


def random_rules(random: Random) -> list[Rule]:
    """Clauses of every kind, all but the last of a kind with a condition."""
    rules: list[Rule] = []
    for about, conditions, sets in (("matched", BOTH, SETS), ("insert", SOURCE, INSERTS), ("rest", TABLE, RESTS)):
        count = random.choice([0, 1, 2] if about != "rest" else [0, 0, 1, 2])
        for at in range(count):
            action = "insert" if about == "insert" else random.choice(["update", "delete"])
            values = random.choice(sets) if action != "delete" else None
            needed = at < count - 1 or random.random() < 0.5
            rules.append(Rule(about, action, values, random.choice(conditions) if needed else None))
    return rules or [Rule("insert", "insert")]


def merged(table: list[Row], source: list[Row], on: str, rules: list[Rule]) -> list[Row]:
    """The table's rows afterwards."""
    matches = ON[on]
    after: list[Row] = []
    for row in table:
        hits = [other for other in source if matches(row, other)]
        applied = [rule for rule in (_first(rules, "matched", row, other) for other in hits) if rule]
        if len(applied) > 1:
            raise SeveralMatch
        if applied:
            other = next(other for other in hits if _first(rules, "matched", row, other))
            after.extend(_changed(applied[0], row, other))
        elif not hits and (rule := _first(rules, "rest", row, NOTHING)):
            after.extend(_changed(rule, row, NOTHING))
        else:
            after.append(row)
    for other in source:
        rule = None if any(matches(row, other) for row in table) else _first(rules, "insert", NOTHING, other)
        after.extend([{**NOTHING, **_values(rule, NOTHING, other)}] if rule else [])
    return after


def apply_rules(merge: Any, rules: list[Rule]) -> Any:
    """The same clauses on a merge of Esker's."""
    for rule in rules:
        sql = "*" if rule.values is None else {name: said.sql for name, said in rule.values.items()}
        when = None if rule.condition is None else rule.condition.sql
        match rule.about, rule.action:
            case "matched", "update":
                merge = merge.when_matched_update(sql, when)
            case "matched", _:
                merge = merge.when_matched_delete(when)
            case "insert", _:
                merge = merge.when_not_matched_insert(sql, when)
            case _, "update":
                merge = merge.when_not_matched_by_source_update(sql, when)
            case _:
                merge = merge.when_not_matched_by_source_delete(when)
    return merge


def in_order(rows: list[Row]) -> list[str]:
    """Rows without an order, comparable."""
    return sorted(repr({name: row[name] for name in NOTHING}) for row in rows)


def _first(rules: list[Rule], about: str, row: Row, other: Row) -> Rule | None:
    fits = (rule for rule in rules if rule.about == about)
    return next((rule for rule in fits if rule.condition is None or rule.condition.of(row, other) is True), None)


def _changed(rule: Rule, row: Row, other: Row) -> list[Row]:
    return [] if rule.action == "delete" else [{**row, **_values(rule, row, other)}]


def _values(rule: Rule, row: Row, other: Row) -> Row:
    if rule.values is None:
        return dict(other)
    return {name: said.of(row, other) for name, said in rule.values.items()}

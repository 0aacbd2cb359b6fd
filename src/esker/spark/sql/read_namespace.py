"""ALTER NAMESPACE, and COMMENT ON a namespace, a table or a column."""

from __future__ import annotations

from esker.model.predicate_sql import quote_name
from esker.spark.sql.alterations import AlterTable, ChangeColumn, SetProperties, UnsetProperties
from esker.spark.sql.statements import AlterNamespace
from esker.spark.sql.territory import Territory
from esker.spark.sql.words import Named, Words

NAMESPACE_WORDS = ("namespace", "database", "schema")
_COMMENT = "comment"


def read_alter_namespace(words: Words, territory: Territory) -> AlterNamespace:
    """Behind ALTER NAMESPACE."""
    name = territory.namespace(words.name("the name of a namespace"))
    if words.take("set", "location"):
        found = AlterNamespace(name=name, updates={"location": words.string("the location")})
    elif words.take("set") and words.take_any("properties", "dbproperties"):
        found = AlterNamespace(name=name, updates=words.properties())
    elif words.take("unset") and words.take_any("properties", "dbproperties"):
        words.take("if", "exists")
        found = AlterNamespace(name=name, removals=words.property_keys())
    else:
        raise words.refuse("expected SET PROPERTIES, UNSET PROPERTIES or SET LOCATION")
    words.expect_end()
    return found


def read_comment(words: Words, territory: Territory) -> AlterNamespace | AlterTable:
    """Behind COMMENT. IS NULL takes the comment away."""
    words.expect("on")
    if words.take_any(*NAMESPACE_WORDS):
        name = territory.namespace(words.name("the name of a namespace"))
        comment = _comment(words)
        if comment is None:
            return AlterNamespace(name=name, removals=(_COMMENT,))
        return AlterNamespace(name=name, updates={_COMMENT: comment})
    if words.take("table"):
        name = territory.table(words.name("the name of a table"))
        comment = _comment(words)
        change = UnsetProperties((_COMMENT,)) if comment is None else SetProperties({_COMMENT: comment})
        return AlterTable(name, (change,))
    if words.take("column"):
        name, column = _column(words, territory)
        comment = _comment(words)
        return AlterTable(name, (ChangeColumn(name=column, doc=comment, without_doc=comment is None),))
    raise words.refuse("expected NAMESPACE, SCHEMA, DATABASE, TABLE or COLUMN")


def _comment(words: Words) -> str | None:
    words.expect("is")
    found = None if words.take("null") else words.string("the comment, or NULL,")
    words.expect_end()
    return found


def _column(words: Words, territory: Territory) -> tuple[Named, str]:
    """``sales.orders.address.city``: the shortest name of a table of the lake, and a column behind it."""
    whole = words.name("the name of a column")
    if len(whole.parts) < 2:
        words.tokens.at -= 1
        raise words.refuse("expected a table and its column, with a dot between them")
    ends = [*range(2, len(whole.parts)), 1]
    end = next((at for at in ends if territory.holds(whole.parts[:at])), len(whole.parts) - 1)
    table = territory.table(Named(whole.parts[:end], whole.span, whole.place))
    return table, ".".join(map(quote_name, whole.parts[end:]))

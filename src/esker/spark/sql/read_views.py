"""CREATE, ALTER, DROP and SHOW of views that last, which are the lake's."""

from __future__ import annotations

from esker.spark.sql.statements import (
    AlterView,
    CreateLakeView,
    DropView,
    RenameView,
    ShowViews,
    ViewColumn,
)
from esker.spark.sql.territory import Territory
from esker.spark.sql.words import Named, Words

_QUERY_WORDS = ("select", "with", "values", "from", "table")


def read_create_view(words: Words, territory: Territory, *, replaces: bool) -> CreateLakeView:
    """Behind CREATE [OR REPLACE] VIEW."""
    place = words.place
    unless_there = words.take("if", "not", "exists")
    name = territory.table(words.name("the name of a view"))
    if replaces and unless_there:
        raise words.unsupported("CREATE OR REPLACE VIEW IF NOT EXISTS", "it is one or the other", place=place)
    columns: tuple[ViewColumn, ...] = ()
    if (token := words.peek()) is not None and token.is_sign and token.text == "(":
        columns = _columns(words)
    properties: dict[str, str] = {}
    while not words.take("as"):
        if words.take("comment"):
            properties["comment"] = words.string("the comment")
        elif words.take("tblproperties"):
            properties |= words.properties()
        else:
            raise words.refuse("expected COMMENT, TBLPROPERTIES or AS and a query")
    return CreateLakeView(
        name=name,
        sql=_query(words),
        columns=columns,
        properties=properties,
        replaces=replaces,
        unless_there=unless_there,
    )


def read_drop_view(words: Words, territory: Territory) -> DropView:
    """Behind DROP VIEW."""
    if_there = words.take("if", "exists")
    return DropView(name=_last(words, _view(words, territory)), if_there=if_there)


def read_alter_view(words: Words, territory: Territory) -> AlterView | RenameView | CreateLakeView:
    """Behind ALTER VIEW."""
    name = _view(words, territory)
    if words.take("rename", "to"):
        return RenameView(name=name, to=_last(words, words.name("the new name")))
    if words.take("as"):
        return CreateLakeView(name=name, sql=_query(words), replaces=True, must_be_there=True)
    if words.take("set", "tblproperties"):
        found = AlterView(name=name, properties=words.properties())
    elif words.take("unset", "tblproperties"):
        if_there = words.take("if", "exists")
        found = AlterView(name=name, removed=_keys(words), if_there=if_there)
    else:
        raise words.refuse("expected SET TBLPROPERTIES, UNSET TBLPROPERTIES, RENAME TO, or AS and a query")
    words.expect_end()
    return found


def read_show_views(words: Words, territory: Territory) -> ShowViews:
    """Behind SHOW VIEWS."""
    inside = None
    if words.take_any("in", "from") is not None:
        inside = territory.namespace(words.name("the name of a namespace"))
    words.take("like")
    found = ShowViews(inside, None if words.is_over else words.string("a pattern"))
    words.expect_end()
    return found


def _columns(words: Words) -> tuple[ViewColumn, ...]:
    found: list[ViewColumn] = []
    for term in words.terms(words.parenthesised()):
        column = Words(term)
        name = column.word("a column")
        doc = column.string("the comment") if column.take("comment") else None
        column.expect_end()
        found.append(ViewColumn(name, doc))
    return tuple(found)


def _query(words: Words) -> str:
    token = words.peek()
    if token is None or not (token.word in _QUERY_WORDS or (token.is_sign and token.text == "(")):
        raise words.refuse("expected a query")
    return words.text_of(words.rest())


def _keys(words: Words) -> tuple[str, ...]:
    words.expect_sign("(")
    found = [_key(words)]
    while words.take_sign(","):
        found.append(_key(words))
    words.expect_sign(")")
    return tuple(found)


def _key(words: Words) -> str:
    return words.property_key()


def _view(words: Words, territory: Territory) -> Named:
    return territory.table(words.name("the name of a view"))


def _last(words: Words, found: Named) -> Named:
    words.expect_end()
    return found

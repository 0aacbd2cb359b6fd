"""Compares a view's text with the plan that Spark parses from it, where the session gives access to its parser.

The strict reader has approved the text before. The plan must name the same tables, make no other calls, and have no
node beyond those that queries have. A session over Spark Connect shows no plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.spark.session.jvm import Jvm
from esker.spark.session.spark_session import is_connect
from esker.spark.sql.guard.query_reader import Shape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALYST = "org.apache.spark.sql.catalyst."
_NODES = frozenset(
    """
    Aggregate Distinct Except Filter Generate GlobalLimit GroupingSets Intersect Join LateralJoin LimitAll LocalLimit
    LocalRelation Offset OneRowRelation Pivot Project Range RelationTimeTravel RepartitionByExpression ResolvedHint
    ResolvedInlineTable Sample Sort SubqueryAlias Tail Union UnresolvedHaving UnresolvedHint UnresolvedInlineTable
    UnresolvedRelation UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTableValuedFunction
    UnresolvedWith Unpivot WithWindowDefinition
    """.split()  # noqa: SIM905 - a table of names is read more easily without quotes
)
_OF_EXPRESSIONS = ("expressions.", "analysis.", "trees.")
_CALLS = ("UnresolvedFunction", "UnresolvedTableValuedFunction", "UnresolvedGenerator")
_RELATION = "UnresolvedRelation"
_BUILT_IN_FIRST = (4, 3)  # earlier, a temporary function replaces a built-in one without being listed


def check_plan(text: str, shape: Shape, session: SparkSession) -> None:
    """Raise ``InvalidInput`` for a text that this session would read differently from the strict reader."""
    if not is_connect(session):
        parsed = Jvm(session).session.sessionState().sqlParser().parsePlan(text)
        _check_nodes(json.loads(parsed.toJSON()), shape)
    if shape.calls:
        _check_replaced(shape, session)


def _check_nodes(plan: Any, shape: Shape) -> None:
    # Spark writes a name as "[a, b]"
    tables = {f"[{', '.join(table.parts)}]".lower() for table in shape.tables} | {f"[{cte}]" for cte in shape.common}
    for node in _nodes(plan):
        name = node["class"].rpartition(".")[2]
        if name == _RELATION and (
            str(node.get("multipartIdentifier")).lower() not in tables or node.get("isStreaming")
        ):
            raise _differs(f"reads {node.get('multipartIdentifier')}")
        if name in _CALLS and _called(node) not in shape.calls | shape.trusted:
            raise _differs(f"calls {_called(node)}")
        if name not in _NODES and not node["class"].removeprefix(_CATALYST).startswith(_OF_EXPRESSIONS):
            raise _differs(f"contains {name}")


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every node of a plan, and of the expressions and subqueries in it, from Spark's JSON."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            if "class" in one:
                yield one
            waiting += one.values()


def _called(node: dict[str, Any]) -> str:
    name = node.get("nameParts") or node.get("name")
    if isinstance(name, dict):  # a generator
        name = ".".join(str(name[part]) for part in ("catalog", "database", "funcName") if name.get(part))
    return str(name).removeprefix("[").removesuffix("]").replace(", ", ".").lower()


def _check_replaced(shape: Shape, session: SparkSession) -> None:
    """Raise ``InvalidInput`` if the session has its own function under the name of a built-in one."""
    own = {row[0].lower().rpartition(".")[2] for row in session.sql("SHOW USER FUNCTIONS").collect()}
    replaced = sorted(shape.calls & own)
    if not replaced and _version(session) < _BUILT_IN_FIRST:
        replaced = [name for name in sorted(shape.calls) if _is_replaced(name, session)]
    if replaced:
        raise InvalidInput(
            f"it calls {replaced[0]}, and this session has a function of its own by that name; "
            f"DROP TEMPORARY FUNCTION {replaced[0]}, or connect with trusted_views=[{replaced[0]!r}] to allow it",
            function=replaced[0],
        )


def _is_replaced(name: str, session: SparkSession) -> bool:
    from pyspark.errors import PySparkException

    try:
        class_name = session.catalog.getFunction(name).className
    except PySparkException:  # a keyword that is not a function
        return False
    return not str(class_name).startswith(_CATALYST)


def _version(session: SparkSession) -> tuple[int, ...]:
    return tuple(int(part) for part in session.version.split(".")[:2] if part.isdecimal())


def _differs(what: str) -> InvalidInput:
    return InvalidInput(
        f"Spark finds that it {what}, which is not understood; connect with trusted_views=True to allow it"
    )

"""Queries that no view may have, and queries that every view may have; ``lake`` below is where they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import esker
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.write.views.make_view import make_view

SECRET = "the secret of a file"

# a query, and what the refusal names; {secret} is a file to read, {canary} one that a program would make
ATTACKS: tuple[tuple[str, str], ...] = (
    # programs
    ("SELECT TRANSFORM(id) USING 'touch {canary}' AS (a) FROM orders", "USING"),
    ("SELECT transform (id) using 'touch {canary}' FROM orders", "using"),
    ("SELECT MAP id USING 'touch {canary}' AS a FROM orders", "USING"),
    ("SELECT REDUCE id USING 'touch {canary}' AS a FROM orders", "USING"),
    ("FROM orders SELECT TRANSFORM(id) USING 'touch {canary}' AS a", "FROM"),
    ("SELECT * FROM (FROM orders MAP id USING 'touch {canary}' AS a)", "FROM"),
    ("WITH x AS (SELECT TRANSFORM(id) USING 'touch {canary}' AS (a) FROM orders) SELECT * FROM x", "USING"),
    # functions, in every clause and spelling
    ("SELECT reflect('java.nio.file.Path', 'of', '{secret}') AS a", "reflect"),
    ("SELECT ReFlEcT('java.lang.System', 'getProperty', 'user.home') AS a", "ReFlEcT"),
    ("SELECT `reflect`('java.lang.System', 'getProperty', 'user.home') AS a", "reflect"),
    ("SELECT reflect/**/('java.lang.System', 'getProperty', 'user.home') AS a", "reflect"),
    ("SELECT reflect -- x\n ('java.lang.System', 'getProperty', 'user.home') AS a", "reflect"),
    ("SELECT builtin.reflect('java.lang.System', 'getProperty', 'user.home') AS a", "builtin.reflect"),
    ("SELECT system.builtin.`reflect`('java.lang.System', 'getenv') AS a", "system.builtin.reflect"),
    ("SELECT java_method('java.lang.System', 'getenv', 'HOME') AS a", "java_method"),
    ("SELECT try_reflect('java.lang.System', 'getenv', 'HOME') AS a", "try_reflect"),
    ("SELECT id AS a FROM orders WHERE reflect('java.lang.System', 'lineSeparator') <> ''", "reflect"),
    ("SELECT id AS a FROM orders ORDER BY reflect('java.lang.System', 'lineSeparator')", "reflect"),
    ("SELECT max(id) AS a FROM orders GROUP BY reflect('java.lang.System', 'lineSeparator')", "reflect"),
    ("SELECT id AS a FROM orders o JOIN orders p ON o.id = reflect('java.lang.System', 'nanoTime')", "reflect"),
    ("SELECT explode(array(reflect('java.lang.System', 'lineSeparator'))) AS a", "reflect"),
    ("SELECT a FROM orders LATERAL VIEW explode(array(reflect('java.lang.System', 'nanoTime'))) t AS a", "reflect"),
    ("SELECT transform(array(1), x -> reflect('java.lang.System', 'nanoTime')) AS a", "reflect"),
    ("SELECT count(*) FILTER (WHERE reflect('java.lang.System', 'nanoTime') > '') AS a FROM orders", "reflect"),
    ("SELECT sum(id) OVER (ORDER BY reflect('java.lang.System', 'nanoTime')) AS a FROM orders", "reflect"),
    ("SELECT CASE WHEN true THEN reflect('java.lang.System', 'nanoTime') END AS a", "reflect"),
    ("SELECT (SELECT reflect('java.lang.System', 'nanoTime')) AS a", "reflect"),
    ("SELECT id AS a FROM orders WHERE EXISTS (SELECT reflect('java.lang.System', 'nanoTime'))", "reflect"),
    ("SELECT a FROM VALUES (reflect('java.lang.System', 'nanoTime')) AS t(a)", "reflect"),
    ("SELECT id AS a FROM orders LIMIT (SELECT reflect('java.lang.System', 'nanoTime'))", "reflect"),
    ("SELECT id AS a FROM orders TIMESTAMP AS OF reflect('java.lang.System', 'nanoTime')", "reflect"),
    ("SELECT id AS a FROM orders TABLESAMPLE (reflect('java.lang.System', 'nanoTime') ROWS)", "reflect"),
    ("SELECT 1 AS a UNION ALL SELECT reflect('java.lang.System', 'nanoTime')", "reflect"),
    ("SELECT from_xml(a, 'b int', map('rowValidationXSDPath', '{secret}')) AS a FROM VALUES ('<b/>') t(a)", "from_xml"),
    ("SELECT from_avro(X'00', 'x', map('avroSchemaUrl', '{secret}')) AS a", "from_avro"),
    ("SELECT xpath('<!DOCTYPE a SYSTEM \"file:{secret}\"><a/>', '/a') AS a", "xpath"),
    ("SELECT input_file_name() AS a FROM orders", "input_file_name"),
    ("SELECT mine(id) AS a FROM orders", "mine"),
    ("SELECT spark_catalog.default.mine(id) AS a FROM orders", "spark_catalog.default.mine"),
    ('SELECT "reflect"(1) AS a', '"reflect"'),
    # files and tables that are not the lake's
    ("SELECT * FROM text.`{secret}`", "text.{secret}"),
    ("SELECT * FROM TEXT.`{secret}`", "TEXT.{secret}"),
    ("SELECT * FROM `text`.`{secret}` AS t", "text.{secret}"),
    ("TABLE text.`{secret}`", "text.{secret}"),
    ("SELECT * FROM csv.`{secret}`", "csv.{secret}"),
    ("SELECT * FROM json.`{secret}`", "json.{secret}"),
    ("SELECT * FROM parquet.`{secret}`", "parquet.{secret}"),
    ("SELECT * FROM binaryFile.`{secret}`", "binaryFile.{secret}"),
    ("SELECT * FROM orders, text.`{secret}`", "text.{secret}"),
    ("SELECT * FROM orders JOIN text.`{secret}` ON true", "text.{secret}"),
    ("SELECT id, (SELECT max(value) FROM text.`{secret}`) AS a FROM orders", "text.{secret}"),
    ("SELECT id AS a FROM orders WHERE region IN (SELECT value FROM text.`{secret}`)", "text.{secret}"),
    ("WITH x AS (SELECT * FROM text.`{secret}`) SELECT * FROM x", "text.{secret}"),
    ("SELECT o.id, t.value FROM orders o, LATERAL (SELECT value FROM text.`{secret}`) t", "text.{secret}"),
    ("SELECT * FROM read_files('{secret}')", "read_files"),
    ("SELECT * FROM spark_catalog.default.theirs", "spark_catalog.default.theirs"),
    ("SELECT * FROM default.theirs", "default.theirs"),
    ("SELECT * FROM global_temp.theirs", "global_temp.theirs"),
    ("SELECT * FROM theirs", "theirs"),
    ("SELECT * FROM identifier('text.`{secret}`')", "identifier"),
    ("SELECT identifier('reflect')('java.lang.System', 'nanoTime') AS a", "identifier"),
    # words of SQL that are names as well: Spark finds a table where another reader finds a column
    ("SELECT * FROM orders WHERE (a, b), text.`{secret}`", ","),
    ("SELECT * FROM orders HAVING (a, b), text.`{secret}`", ","),
    ("SELECT * FROM orders LIMIT (a), text.`{secret}`", ","),
    ("SELECT * FROM orders OFFSET (a), text.`{secret}`", ","),
    ("SELECT * FROM orders WINDOW, text.`{secret}`", ","),
    ("SELECT * FROM orders GROUP, text.`{secret}`", "GROUP"),
    ("SELECT * FROM VALUES (1), text.`{secret}`", "text"),
    ("FROM orders SELECT (a, b), text.`{secret}`", "FROM"),
    ("FROM text.`{secret}` |> SELECT value", "FROM"),
    ("SELECT * FROM orders |> UNION ALL (TABLE text.`{secret}`)", "|>"),
    # settings, parameters, scripts, statements
    ("SELECT '${{env:HOME}}' AS a", "${{"),
    ("SELECT * FROM orders WHERE region = '${{spark.app.id}}'", "${{"),
    ("SELECT :p AS a", ":"),
    ("SELECT CASE WHEN true THEN :p END AS a", ":"),
    ("SELECT ? AS a", "?"),
    ("EXECUTE IMMEDIATE 'SELECT 1'", "EXECUTE"),
    ("BEGIN SELECT 1; END", ";"),
    ("SELECT 1 AS a; DROP TABLE orders", ";"),
    ("WITH x AS (SELECT 1) INSERT INTO orders SELECT * FROM x", "INSERT"),
    ("SELECT 1 AS a) AS x, (SELECT value FROM text.`{secret}`", ")"),
    ("SELECT 1 AS a /* open", "comment"),
)

# a query over sales.orders (id bigint, region string, amount double, tags array<string>), and its rows
ORDINARY: tuple[tuple[str, list[tuple[Any, ...]]], ...] = (
    ("SELECT id, amount * 2 AS twice FROM sales.orders WHERE region = 'eu'", [(1, 2.0), (3, 6.0)]),
    ("select o.id /* hinted */ from Orders o -- the end", [(1,), (2,), (3,)]),
    ("SELECT /*+ BROADCAST(o) */ o.id FROM orders AS o WHERE o.id >= 2", [(2,), (3,)]),
    ("SELECT region, sum(amount) AS t FROM orders GROUP BY region HAVING sum(amount) > 3", [("eu", 4.0)]),
    ("SELECT id FROM orders ORDER BY amount DESC NULLS LAST LIMIT 1 OFFSET 1", [(2,)]),
    (
        "WITH a AS (SELECT id FROM orders), b (k) AS (SELECT id FROM a) SELECT k FROM b JOIN a ON a.id = b.k",
        [(1,), (2,), (3,)],
    ),
    ("SELECT a.id FROM orders a LEFT JOIN orders b USING (id) CROSS JOIN (SELECT 1 AS one) c", [(1,), (2,), (3,)]),
    ("SELECT count(*) FILTER (WHERE amount > 1) AS n FROM orders", [(2,)]),
    ("SELECT id, row_number() OVER (PARTITION BY region ORDER BY id DESC) AS n FROM orders", [(1, 2), (2, 1), (3, 1)]),
    ("SELECT sum(amount) OVER w AS s FROM orders WINDOW w AS (ORDER BY id)", [(1.0,), (3.0,), (6.0,)]),
    ("SELECT CASE WHEN id = 1 THEN 'one' ELSE CAST(id AS string) END AS c FROM orders", [("2",), ("3",), ("one",)]),
    ("SELECT CAST(amount AS decimal(10, 1))::string AS c FROM orders WHERE id = 1", [("1.0",)]),
    ("SELECT transform(tags, x -> upper(x))[0] AS t FROM orders WHERE id = 1", [("A",)]),
    ("SELECT id, t FROM orders LATERAL VIEW explode(tags) v AS t WHERE id = 1", [(1, "a"), (1, "b")]),
    ("SELECT id, t.col FROM orders, LATERAL explode(tags) t WHERE id = 1", [(1, "a"), (1, "b")]),
    ("SELECT id FROM orders WHERE id IN (SELECT max(id) FROM orders) OR NOT EXISTS (SELECT 1 FROM orders)", [(3,)]),
    ("SELECT (SELECT max(id) FROM orders) + 1 AS m", [(4,)]),
    ("SELECT id FROM orders WHERE id = (SELECT max(id) FROM orders) AND 2 * (id - (1)) > (3)", [(3,)]),
    ("SELECT transform(tags, x -> (upper(x)))[0] AS t FROM orders WHERE id <> -(1) AND id<(2)", [("A",)]),
    ("(SELECT 1 AS a) UNION ALL (SELECT 2) EXCEPT SELECT 2", [(1,)]),
    ("SELECT * FROM ((SELECT 1 AS a) UNION (SELECT 2)) x", [(1,), (2,)]),
    ("VALUES (1, 'a'), (2, 'b')", [(1, "a"), (2, "b")]),
    ("SELECT b FROM VALUES (1, 'a') AS t(a, b)", [("a",)]),
    ("SELECT id FROM range(3)", [(0,), (1,), (2,)]),
    ("TABLE sales.orders", [(1, "eu", 1.0, ["a", "b"]), (2, "us", 2.0, ["c"]), (3, "eu", 3.0, None)]),
    ("SELECT * EXCEPT (tags, amount) FROM orders WHERE id = 2", [(2, "us")]),
    ("SELECT extract(YEAR FROM DATE '2026-01-02') AS y, substring('abc' FROM 2 FOR 1) AS s", [(2026, "b")]),
    ("SELECT trim(BOTH 'x' FROM 'xax') AS t, 1 IS NOT DISTINCT FROM NULL AS d", [("a", False)]),
    (
        "SELECT region, grouping(region) AS g FROM orders GROUP BY GROUPING SETS ((region), ())",
        [("eu", 0), ("us", 0), (None, 1)],
    ),
    ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS m FROM orders", [(2.0,)]),
    (
        "SELECT * FROM (SELECT region, amount FROM orders) PIVOT (sum(amount) FOR region IN ('eu' AS e, 'us' AS u))",
        [(4.0, 2.0)],
    ),
    (
        "SELECT left(region, 1) AS l, if(id > 1, 'y', 'n') AS y FROM orders WHERE region LIKE 'e%' AND id RLIKE r'\\d'",
        [("e", "n"), ("e", "y")],
    ),
    ("SELECT parse_json('{{\"a\": [7]}}'):a[0]::int AS v", [(7,)]),
    (
        "SELECT window.start IS NULL AS w FROM (SELECT window(TIMESTAMP '2026-01-01 00:00:00', '1 hour') AS window)",
        [(False,)],
    ),
    ("SELECT `order`, offset FROM (SELECT 1 AS `order`, 2 AS offset) WHERE offset > 1", [(1, 2)]),
    ("SELECT count(*) AS n FROM orders.files WHERE record_count > 0", [(1,)]),
    ("SELECT current_user() IS NOT NULL AS a, now() IS NULL AS b, rand() < 0 AS c", [(True, False, False)]),
    ("SELECT '$' AS a, '{{x}}' AS b, 'a;b--c/*d*/' AS c", [("$", "{x}", "a;b--c/*d*/")]),
)


def foreign_view(lake: Lake, name: str, sql: str, columns: str = "a string") -> None:
    """A view as another engine makes it, whatever its query; its columns are not in the way of what it reads."""
    made = TableName.parse(name)
    make_view(
        lake.catalog,
        made,
        sql,
        columns=columns,
        is_analysed=False,
        namespace=made.namespace,
        properties={},
        replaces=True,
    )


def orders_lake(spark: Any, folder: Path) -> Lake:
    """A lake with the table that the ordinary views read."""
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", spark=spark)
    lake.create_namespace("sales")
    orders = lake.create_table("sales.orders", "id bigint, region string, amount double, tags array<string>")
    rows = {"id": [1, 2, 3], "region": ["eu", "us", "eu"], "amount": [1.0, 2.0, 3.0], "tags": [["a", "b"], ["c"], None]}
    orders.append(pa.table(rows, schema=orders.scan().to_arrow().schema))
    return lake

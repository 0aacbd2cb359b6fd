"""``lake.sql``: Spark SQL over the tables of a lake.

Esker parses statements about lake tables itself, from sqlglot's tokens, and the lake executes them. Spark executes
queries. Each reference to a lake table becomes a frame of exactly the files that the query's conditions leave. The rest
of the text reaches Spark unchanged.
"""

"""``lake.sql``: Spark SQL over the tables of a lake.

Statements about lake tables are read here, from sqlglot's tokens, and done by the lake. Queries stay Spark's: each
reference to a lake table is given a frame of exactly the files that the query's own conditions leave, and the rest of
the text reaches Spark as it was written.
"""

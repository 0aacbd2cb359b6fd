"""A lake that is attached to a Spark session under a name, for ``spark.sql``, ``spark.table``, ``df.writeTo`` and
others."""

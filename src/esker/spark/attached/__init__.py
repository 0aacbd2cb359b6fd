"""A lake under a name in a Spark session: ``spark.sql``, ``spark.table``, ``df.writeTo`` and their like see it."""

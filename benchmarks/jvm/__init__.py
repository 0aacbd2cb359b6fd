"""``make bench-jvm``: Esker beside Iceberg's own Spark runtime, in turns, on the same release of Spark."""

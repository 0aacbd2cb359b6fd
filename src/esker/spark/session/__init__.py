"""The Spark session: finds or starts it, names and watches its jobs, calls its JVM."""

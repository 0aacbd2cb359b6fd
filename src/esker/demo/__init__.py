"""``make demo``, ``esker demo``: runs the telemetry pipeline on Spark, kills its programs, and writes a report."""

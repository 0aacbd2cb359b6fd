"""``make demo``, ``esker demo``: the telemetry pipeline on Spark end to end, killed on the way, ending in a report."""

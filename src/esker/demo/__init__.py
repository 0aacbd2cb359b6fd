"""``make demo``, ``esker demo``: the telemetry pipeline end to end, killed on the way, ending in a report."""

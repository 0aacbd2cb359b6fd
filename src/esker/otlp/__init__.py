"""The telemetry pipeline's decoding half: OTLP, from files or over HTTP, becomes Arrow tables and dead letters.

``read_requests`` (``sources``) finds the requests in a file, whatever its framing; ``decode`` makes tables of them, and
a dead letter of each record that cannot be one; ``spool`` and ``receiver`` take requests over HTTP and keep them.
"""

"""Telemetry as a Structured Streaming query: Spark says when a batch is taken, its workers decode, and Esker's
checkpoint says what the batch is and whether it is in its tables."""

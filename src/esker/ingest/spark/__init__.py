"""Telemetry on Spark: workers that decode OTLP, and the streaming query and data source of a pipeline."""

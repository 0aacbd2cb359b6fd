"""Telemetry into tables, whichever engine decodes it: files, topics of Kafka, replay of dead letters."""

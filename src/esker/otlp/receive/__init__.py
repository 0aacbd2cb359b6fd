"""OTLP over HTTP: the receiver, its limits and answers, and the spool that keeps requests until they are ingested."""

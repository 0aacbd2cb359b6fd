"""Where requests come from: files and streams in any framing and compression, the spool's segments, topics of Kafka."""

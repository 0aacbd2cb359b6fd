"""Reads topics of Kafka as ranges of offsets. A range can be read any number of times, with the same result.

``progress`` decides how far the next batch goes, from the positions and the offsets that the broker has. ``client``
asks the broker. ``read_range`` reads the messages of a range. Nothing is committed to the broker: the reader keeps its
own positions.
"""

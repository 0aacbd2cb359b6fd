"""Topics of Kafka as ranges of offsets: what a range holds is read again as often as one likes, and is the same.

``progress`` decides how far the next batch goes, from positions and what the broker has; ``client`` asks the broker;
``read_range`` gives the messages of a range. Nothing is committed to the broker: positions are kept by whoever reads.
"""

"""The data source ``esker``, for ``spark.read``, ``df.write``, ``spark.readStream`` and ``df.writeStream``."""

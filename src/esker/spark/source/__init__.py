"""The data source ``esker``: tables under ``spark.read``, ``df.write``, ``spark.readStream`` and ``df.writeStream``."""

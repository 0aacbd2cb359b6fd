"""Changes of rows on Spark: merges, and deletes and updates by any expression of Spark SQL."""

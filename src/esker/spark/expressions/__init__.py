"""Converts Esker's types, values, predicates and transforms to Spark's form, and Spark SQL conditions to predicates."""

"""Esker's types, values, predicates and transforms in Spark's form, and Spark SQL conditions as predicates."""

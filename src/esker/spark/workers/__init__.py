"""Code that runs in Spark's workers, how it travels there without Esker installed, and how failures come back."""

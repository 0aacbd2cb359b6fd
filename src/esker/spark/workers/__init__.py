"""Code that runs in Spark's workers, how it is sent to workers without Esker, and how failures are reported back."""

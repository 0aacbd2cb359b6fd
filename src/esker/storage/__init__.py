"""Where files lie."""

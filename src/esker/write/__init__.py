"""The way up: from data files to a swapped pointer."""

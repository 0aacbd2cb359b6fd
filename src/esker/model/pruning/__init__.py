"""Pruning: from statistics of files to the verdict whether some row or every row can match."""

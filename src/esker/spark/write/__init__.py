"""Writes a DataFrame: distributes its rows over tasks, lets workers write them, and collects the written files."""

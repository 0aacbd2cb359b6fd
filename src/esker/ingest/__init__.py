"""Feeding tables: files and streams in, one snapshot per table and batch, exactly once, with an account at the end.

A batch goes through the same steps whatever it holds: its plan is written down, its rows become data files, a receipt
names these files, each table commits its part under the batch's mark, the plan is ticked off. A run that dies anywhere
is continued by the next from what is written down.
"""

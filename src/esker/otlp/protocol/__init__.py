"""OTLP itself: its messages and their fields, protobuf's wire format, and the walk that finds records in a request.

The walk is compiled (``esker/otlp/_walk.c``). Modules named ``…_py`` are the same walk in Python.
"""

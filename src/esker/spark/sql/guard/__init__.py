"""Decides what the text of a stored view may contain.

A view's text is data in a shared warehouse, and it runs with the rights of the user who reads the view. So it may read
only tables and views of the lake, and call only functions of a list. Everything else is refused by its name.
"""

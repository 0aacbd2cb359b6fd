"""What the text of a stored view may contain.

A view's text is data of a shared warehouse, and it runs with the rights of whoever reads the view. So it may read
tables and views of the lake, and call functions of a list; everything else is refused by its name.
"""

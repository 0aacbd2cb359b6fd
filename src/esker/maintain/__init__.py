"""Removing the files of tables that were dropped."""

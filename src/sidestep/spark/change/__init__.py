"""Rows that change: delete, update and merge, and the files that are written anew for them."""

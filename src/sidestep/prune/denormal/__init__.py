"""Denormalized tables: which joins of a query one of them holds the rows of already."""

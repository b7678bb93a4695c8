"""Families of layouts. Each is a module that makes arrangements of a table's rows from what is known of its queries."""

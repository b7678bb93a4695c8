"""Partial replication (GSOP-R): which cells of a table are stored more than once, and which copies a query reads."""

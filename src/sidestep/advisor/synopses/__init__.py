"""Which synopses suit a table's columns: tried on a sample of its blocks."""

"""Features as synopses: union vectors of blocks, and which features answer a query."""

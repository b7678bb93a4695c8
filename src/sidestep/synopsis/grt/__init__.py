"""The global range table (GRT): one list of ranges for all blocks, by which blocks and queries become bit strings."""

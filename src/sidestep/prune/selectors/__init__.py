"""Partition selectors: which partitions a scan reads, by constants or by rows of another table at run time."""

"""Data-induced predicates (diPs): what a filter on one table lets the tables skip that it is joined with."""

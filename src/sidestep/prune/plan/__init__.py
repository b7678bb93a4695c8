"""A query's plan as a small relational algebra, and which predicates reach which scan."""

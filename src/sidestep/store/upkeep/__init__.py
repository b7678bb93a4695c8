"""The upkeep of an index and its table: bring up to date, compact, report, clean."""

"""The analysis of a workload, and its views on a terminal and as a page."""

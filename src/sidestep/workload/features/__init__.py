"""Features: representative filters of a workload, how they are mined, chosen and judged."""

"""Query logs through Catalyst: statements, recordings and event logs as queries of one workload."""

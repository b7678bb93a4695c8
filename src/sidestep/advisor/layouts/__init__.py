"""Which layout suits a workload: candidates tried on a sample of the table's rows."""

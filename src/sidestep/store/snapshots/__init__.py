"""Snapshots: which files a Parquet folder or a Delta table consists of."""

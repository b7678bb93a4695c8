"""Snapshots: which files a Parquet folder, a Delta or an Iceberg table consists of."""

"""Parquet files: what their blocks contain, which footers to trust, and how block files are written."""

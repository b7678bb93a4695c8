"""Rows on their way to blocks: units, feature vectors, groups, files."""

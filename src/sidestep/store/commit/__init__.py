"""Commits to a Delta log: one atomic step, or none."""

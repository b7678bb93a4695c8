"""Explanations: what a query skips and why, as text, HTML, data and drawings."""

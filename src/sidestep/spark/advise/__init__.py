"""Advice on layouts: the study of a table and its workload, and what comes of it."""

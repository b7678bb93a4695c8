"""Python functions in queries: when two are the same, by the code that they run."""

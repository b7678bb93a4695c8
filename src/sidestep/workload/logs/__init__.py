"""Query logs as statements: how files are found and read, and what their entries say."""

"""Values as synopses hold them: stored forms, codes, ranges of codes, hashes, and a column's summary."""

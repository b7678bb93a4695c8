"""What synopses of all blocks have in common: how they answer, and ranges of codes held for every block."""

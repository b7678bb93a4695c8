"""Faults: every point at which a write can be cut short, and many processes at once; see the modules' own texts."""

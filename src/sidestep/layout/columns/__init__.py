"""Column groups (GSOP): which columns are laid out together, and by which features each group is arranged."""

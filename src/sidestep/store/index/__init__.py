"""The index of a table: its files, the blocks that they describe, and what each column says of them."""

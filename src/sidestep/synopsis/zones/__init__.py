"""Zone maps and partition values: outer bounds of each column in each block, and how they are asked."""

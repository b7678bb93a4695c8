"""What layouts are tried on: a sample of a table's rows, what queries need of it, and what reading it would cost."""

"""Jobs that write: index, load, append, delete, update, merge, optimize; and the state that each begins with."""

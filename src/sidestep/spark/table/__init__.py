"""Jobs that write: index, load, append, optimize; and the state that each begins with."""

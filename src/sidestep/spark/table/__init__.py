"""Jobs that write: index, load, append, delete, update, optimize, and the state that each begins and ends with."""

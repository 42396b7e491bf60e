"""A connection's books, without I/O: what was sent, what was received, what is owed, and where to go next."""

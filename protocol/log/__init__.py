"""One stream's log at a voter: its entries, its promise, the leader it follows, and its majorities."""

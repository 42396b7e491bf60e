"""One stream's log at a voter: what it holds, what it has promised, whom it follows, and what a majority is."""

"""The supervisor's decisions: whom it replaces, where processes go, who joins and leaves, and whether it may act at
all."""

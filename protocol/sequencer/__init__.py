"""One total order: where each event goes, when it is committed, who leads, who votes, and who has fallen behind."""

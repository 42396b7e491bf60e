"""The members of a cluster as Ray actors: each is the shell of one machine."""

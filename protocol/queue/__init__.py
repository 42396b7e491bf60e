"""One queue's state as a pure function of its stream, and who gets what of it on one broker."""

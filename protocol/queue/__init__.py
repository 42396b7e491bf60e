"""One queue's state as a pure function of its stream, and the dispatch of its messages at one broker."""

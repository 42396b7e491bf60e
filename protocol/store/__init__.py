"""The store of one broker: whose streams it keeps, what is flushed together, and when the old end of a log may go."""

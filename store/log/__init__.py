"""The log: records of many streams in one file after the other, recovered as they were flushed (see `README.md`)."""

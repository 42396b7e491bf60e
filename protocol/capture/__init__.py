"""What was committed, told to the tap once and kept as rows for Spark."""

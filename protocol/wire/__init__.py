"""The wire: events and frames as values, their bytes, the versions that understand each other, and when a link is
dead."""

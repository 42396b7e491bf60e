"""The process that keeps queues: as keeper of their streams, as their dispatcher, as updater and updatee."""

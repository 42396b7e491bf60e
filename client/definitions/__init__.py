"""What is declared in a cluster as a document, and such documents read: everything without I/O."""

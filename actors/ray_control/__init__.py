"""All that touches Ray's control plane: placing actors, calling them, and Ray sessions of our own."""

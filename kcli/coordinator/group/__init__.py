"""Consumer groups of the classic protocol, and everyone's committed offsets."""

"""Record batches, on the wire and on disk."""

"""The committed offsets of groups of all types: commits, fetches, deletion, expiry."""

"""Compaction: what a pass keeps, and the process that runs it."""

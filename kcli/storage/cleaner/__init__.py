"""Compaction: selects logs, filters their records in passes, and runs the passes in a separate process."""

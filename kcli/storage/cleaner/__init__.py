"""Compaction: the passes of the log cleaner, the records that they keep, and the process that runs them."""

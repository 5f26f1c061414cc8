"""Reads topics from a cluster or from log directories: offsets, tasks, batches, Arrow columns."""

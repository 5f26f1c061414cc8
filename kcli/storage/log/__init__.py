"""The log of one partition: its segments, indexes, leader epochs and producers."""

"""The coordinators as state machines, which take requests and return records and replies without input or output."""

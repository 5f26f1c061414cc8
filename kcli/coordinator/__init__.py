"""The coordinators as state machines. They take requests and return records and replies, without input or output."""

"""The coordinators as state machines. A coordinator takes requests and returns records and replies, without input or
output."""

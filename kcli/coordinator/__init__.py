"""The decisions of coordinators as state machines: requests in; records, replies and deadlines out. Pure."""

"""What coordinators decide, as state machines: requests in; records, replies and deadlines out. Pure."""

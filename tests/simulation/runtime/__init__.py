"""The simulated environment of a node: event loop with virtual time, clock, network and disks that can fail."""

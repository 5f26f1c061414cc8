"""The simulation: loop, clock, network, disk and nodes on one virtual time."""

"""The simulation: event loop, clock, network, disk and nodes with the same simulated time."""

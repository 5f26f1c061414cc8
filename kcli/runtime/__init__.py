"""The four seams to the world: clock, disk, network, randomness. Each is a protocol with its real version."""

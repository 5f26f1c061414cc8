"""The test harness, shipped: a broker as a process, and a simulated world with its invariants."""

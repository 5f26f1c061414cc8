"""The test harness, shipped: a broker as a process, and a simulated cluster with its invariants."""

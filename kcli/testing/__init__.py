"""The test harness that kcli ships: a broker as a process, and a simulated cluster with invariants."""

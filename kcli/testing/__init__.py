"""The test harness that kcli ships: brokers as processes, and a simulated cluster with checks of its invariants."""

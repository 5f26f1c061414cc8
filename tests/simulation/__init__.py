"""The simulation: whole nodes in one process with virtual time, simulated clients, and checks after every event.

histories/ runs clients and faults on nodes in processes of their own instead, and shares the checks.
"""

"""Simulated nodes and their stories: the faults that happen, and the clients that work meanwhile."""

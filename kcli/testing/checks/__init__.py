"""Checks of a simulation: the promises that hold after every event."""

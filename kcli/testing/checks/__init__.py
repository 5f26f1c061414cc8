"""Checks of a simulation: the promises that must hold after every event."""

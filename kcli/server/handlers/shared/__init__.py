"""Functions that several handlers use."""

"""Reads the state of Spark jobs, from their checkpoints and from Spark's REST API."""

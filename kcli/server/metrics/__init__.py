"""Metrics: the counts of the hot path, and the meters and rates that are made of them."""

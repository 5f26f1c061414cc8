"""Metrics: counts of requests and traffic, and the meters and rates that are computed from the counts."""

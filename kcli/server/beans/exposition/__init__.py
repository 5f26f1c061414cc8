"""Beans as text: the formats of Prometheus and OpenMetrics, and JSON in the form of Hadoop's /jmx.

`profiles` has the names of metrics as tables, `families` makes the lines, and `encoding` writes them.
"""

"""Beans as text, and the endpoint that serves them.

The formats are those of Prometheus and OpenMetrics, and JSON in the form of Hadoop's /jmx. `profiles` has the names of
metrics as tables, `families` makes the lines, and `encoding` writes them. `endpoint` is the HTTP server.
"""

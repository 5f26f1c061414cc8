"""Beans as text, and the endpoint that serves them.

The formats are Prometheus' text format, OpenMetrics, and JSON in the form of Hadoop's /jmx. `profiles` has tables with
the names of metrics. `families` makes the lines of an answer from the beans, and `encoding` encodes the lines.
`endpoint` is the HTTP server.
"""

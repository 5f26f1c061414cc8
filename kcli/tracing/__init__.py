"""Traces: contexts in record headers, spans by OpenTelemetry's messaging conventions, and the export to a collector.

Only `otlp.py` imports opentelemetry. `otlp.py` itself is imported only if traces are switched on.
"""

"""Traces: contexts in record headers, spans by OpenTelemetry's messaging conventions, and the export to a collector.

Only `otlp.py` imports opentelemetry. It is imported only if traces are switched on.
"""

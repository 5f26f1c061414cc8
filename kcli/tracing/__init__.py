"""Traces: trace contexts in record headers, spans that follow OpenTelemetry's messaging conventions, and the export of
spans to a collector.

Only `otlp.py` imports opentelemetry. `otlp.py` itself is imported only if traces are switched on.
"""

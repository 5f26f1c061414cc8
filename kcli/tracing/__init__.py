"""Traces: contexts in record headers, spans by OpenTelemetry's messaging conventions, and the export to a collector.

Only `otlp.py` imports opentelemetry, and only a process that is asked for traces imports `otlp.py`.
"""

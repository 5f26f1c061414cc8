"""Connectors: the interface that plugins implement, and the built-in connectors and transformations."""

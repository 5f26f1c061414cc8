"""Declares commands, and parses the two command-line syntaxes of Kafka's tools."""

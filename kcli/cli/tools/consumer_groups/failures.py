"""Failures of kafka-consumer-groups: reported on stdout, with exit code 0."""

from __future__ import annotations

from kcli.cli.output import Output, java_text, warn
from kcli.errors import KafkaError


class ExecutionError(Exception):
    """Raised if an action fails. The message is the text of Java's exception."""


def execution_failed(output: Output, error: KafkaError) -> None:
    """Reports an error of a broker, or of the connection to it."""
    failed(output, f"Executing consumer group command failed due to {java_text(error)}")


def failed(output: Output, message: str) -> None:
    """Reports an error as Kafka does: on stdout, after an empty line."""
    if output.is_text:
        output.say(f"\nError: {message}")
    else:
        warn(f"Error: {message}")

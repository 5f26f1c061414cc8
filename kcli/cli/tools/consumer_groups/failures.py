"""Failures of consumer-groups: reported on stdout. Kafka's script ends with exit code 0, and `kcli` with 1."""

from __future__ import annotations

from kcli.cli.output import Output, java_text, warn
from kcli.errors import KafkaError


class ExecutionError(Exception):
    """Raised if an action fails. The message is the text of Java's exception."""


def execution_failed(output: Output, error: KafkaError) -> None:
    """Reports an error of a broker, or of the connection to it."""
    action_failed(output, java_text(error))


def action_failed(output: Output, reason: str) -> None:
    """Reports that the whole action failed. `reason` is the text of Java's exception."""
    failed(output, f"Executing consumer group command failed due to {reason}")


def failed(output: Output, message: str) -> None:
    """Reports an error as Kafka does: on stdout, after an empty line."""
    output.is_failed = True
    if output.is_text:
        output.say(f"\nError: {message}")
    else:
        warn(f"Error: {message}")

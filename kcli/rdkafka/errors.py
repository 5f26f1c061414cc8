"""Errors of clients that cannot be created or cannot continue, with the messages of Java's exceptions."""

from __future__ import annotations

from kcli.errors import KcliError


class RdkafkaError(KcliError):
    """The root of this room's errors."""


class ConfigurationError(RdkafkaError):
    """A property that Java's client or librdkafka refuses."""


class DurationResetError(ConfigurationError):
    """An `auto.offset.reset=by_duration:…`, which librdkafka does not support."""


class PatternError(RdkafkaError):
    """A topic pattern that is not a regular expression."""


class TransactionError(RdkafkaError):
    """A transaction that cannot be begun or committed."""

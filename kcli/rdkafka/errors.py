"""Errors of clients that cannot be created or cannot continue, with the messages of Java's exceptions."""

from __future__ import annotations

from kcli.errors import KcliError


class RdkafkaError(KcliError):
    """The base class of the errors of this package."""


class ConfigurationError(RdkafkaError):
    """A property that Java's client or librdkafka refuses."""


class DurationResetError(ConfigurationError):
    """The setting `auto.offset.reset=by_duration:…`, which librdkafka does not support."""


class PatternError(RdkafkaError):
    """A topic pattern that is not a regular expression."""


class TransactionError(RdkafkaError):
    """A failure to begin or commit a transaction. Its cause is the KafkaError."""

"""Enums of configurations: the types of resources, and the sources of values. The numbers are the same on the wire and
in the metadata log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ConfigResourceType(IntEnum):
    """The type of the resource to which a configuration belongs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True, order=True)
class ConfigResource:
    """A resource that has a configuration: a topic, broker, group or client-metrics subscription. The empty broker name
    means the default of all brokers."""

    type: ConfigResourceType
    name: str


CLUSTER_DEFAULT = ConfigResource(ConfigResourceType.BROKER, "")


class ConfigSource(IntEnum):
    """The source of a value, numbered as in DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3

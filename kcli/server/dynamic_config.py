"""The configuration in force, kept in step with the metadata (KIP-226).

The rules, what may change and how, are config/dynamic.py's; this feeds them what the image holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcli.config import dynamic
from kcli.config.broker import BrokerConfig
from kcli.config.describe import ConfigEntry
from kcli.config.topic import LogConfig
from kcli.controller.image import (
    CLUSTER_DEFAULT,
    ConfigResource,
    ConfigResourceType,
    MetadataImage,
)


class DynamicConfig:
    """`current` is the broker's configuration now; `log_config(topic)` a topic's."""

    def __init__(self, static: BrokerConfig) -> None:
        self._broker = dynamic.DynamicConfig(static)
        self._image = MetadataImage()
        self._own = ConfigResource(ConfigResourceType.BROKER, str(static.node_id))

    @property
    def current(self) -> BrokerConfig:
        return self._broker.current

    def subscribe(self, listener: Callable[[BrokerConfig], None]) -> None:
        """Hears of every new `current`."""
        self._broker.subscribe(lambda _before, after: listener(after))

    def update(self, image: MetadataImage) -> None:
        """Takes up the configs of an image."""
        before, self._image = self._image, image
        if any(
            before.config(resource) != image.config(resource) for resource in (CLUSTER_DEFAULT, self._own)
        ):
            self._broker.update(default=image.config(CLUSTER_DEFAULT), own=image.config(self._own))

    def validate(self, overrides: Mapping[str, str], *, own: bool) -> None:
        """The whole set of dynamic configs that a change would leave to this broker, or to all.

        Raises InvalidRequestException with Kafka's words.
        """
        self._broker.validate(overrides, own=own)

    def log_config(self, topic: str) -> LogConfig:
        return self._broker.log_config(self._image.topic_config(topic))

    # What DescribeConfigs tells.

    def describe_topic(self, name: str) -> tuple[ConfigEntry, ...]:
        return self._broker.describe_topic(self._image.topic_config(name))

    def describe_broker(self) -> tuple[ConfigEntry, ...]:
        return self._broker.describe_broker()

    def describe_broker_defaults(self) -> tuple[ConfigEntry, ...]:
        return self._broker.describe_broker_defaults()

    def describe_group(self, name: str) -> tuple[ConfigEntry, ...]:
        return self._broker.describe_group(self._image.config(ConfigResource(ConfigResourceType.GROUP, name)))

    def describe_client_metrics(self, name: str) -> tuple[ConfigEntry, ...]:
        resource = ConfigResource(ConfigResourceType.CLIENT_METRICS, name)
        return self._broker.describe_client_metrics(self._image.config(resource))

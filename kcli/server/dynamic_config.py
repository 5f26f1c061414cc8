"""The configuration in force: the file, under what is set for all brokers, under what is set for this one (KIP-226)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.topic import LogConfig
from kcli.controller.image import (
    CLUSTER_DEFAULT,
    ConfigResource,
    ConfigResourceType,
    MetadataImage,
)

_log = logging.getLogger("kcli.server.DynamicBrokerConfig")


class DynamicConfig:
    """`current` is the broker's configuration now; `log_config(topic)` a topic's."""

    def __init__(self, static: BrokerConfig) -> None:
        self.static = static
        self.current = static
        self._image = MetadataImage()
        self._listeners: list[Callable[[BrokerConfig], None]] = []
        self._own = ConfigResource(ConfigResourceType.BROKER, str(static.node_id))

    def subscribe(self, listener: Callable[[BrokerConfig], None]) -> None:
        """Hears of every new `current`."""
        self._listeners.append(listener)

    def update(self, image: MetadataImage) -> None:
        """Takes up the configs of an image."""
        before = self._overrides(self._image)
        self._image = image
        overrides = self._overrides(image)
        if overrides == before:
            return
        try:
            self.current = self.static.replaced(overrides)
        except ConfigError as error:
            _log.error("Dynamic broker configs are not applied, the present ones stay: %s", error)
            return
        for listener in self._listeners:
            listener(self.current)

    def _overrides(self, image: MetadataImage) -> dict[str, str]:
        return {**image.config(CLUSTER_DEFAULT), **image.config(self._own)}

    def log_config(self, topic: str) -> LogConfig:
        return LogConfig.resolve(self._image.topic_config(topic), self.current)

"""The dynamic configs of this node in the metadata (KIP-226)."""

from __future__ import annotations

from collections.abc import Callable

from kcli.config.dynamic import DynamicConfig
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.model.configs import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType


class OwnConfig:
    """Passes the configs of this node and of the cluster from the metadata to the dynamic configuration. Calls `after`
    after each pass."""

    def __init__(self, node_id: int, dynamic_config: DynamicConfig, after: Callable[[], None]) -> None:
        self._resource = ConfigResource(ConfigResourceType.BROKER, str(node_id))
        self._dynamic_config = dynamic_config
        self._after = after

    def load(self, image: MetadataImage) -> None:
        self._dynamic_config.update(default=image.config(CLUSTER_DEFAULT), own=image.config(self._resource))
        self._after()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if any(resource.type is ConfigResourceType.BROKER for resource in delta.configs_changed):
            self.load(image)

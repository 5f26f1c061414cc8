"""The sampler of the lag of groups, as a part of a broker."""

from __future__ import annotations

from collections.abc import Callable

from kcli.config.broker import BrokerConfig
from kcli.metadata.image import MetadataImage
from kcli.server.coordinators.broker_links import BrokerLinks
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.partitions.replicas import Replicas
from kcli.server.parts.part import Part, always


def group_lag(
    config: BrokerConfig,
    groups: GroupCoordinator,
    replicas: Replicas,
    image: Callable[[], MetadataImage],
    links: Callable[[str, float], BrokerLinks],
) -> Part:
    """Samples the lag, if the broker has a metrics endpoint. Without a metrics endpoint, the sampler's code is not
    imported, so that the start is faster.

    `links` makes connections to other brokers for a purpose, with the limit of a request in seconds.
    """
    if config.metrics_address is None:
        return Part(name="group lag", offers={"group_lag": None})
    from kcli.server.coordinators.group_lag import GroupLagSampler
    from kcli.server.coordinators.remote_ends import LIMIT_S, RemoteEnds

    remote = RemoteEnds(links("group-lag", LIMIT_S))
    sampler = GroupLagSampler(config.node_id, groups, replicas, image, remote)
    return Part(
        name="group lag", start=sampler.start, stop=always(sampler.stop), offers={"group_lag": sampler}
    )

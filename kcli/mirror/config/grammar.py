"""Reads mm2.properties: the clusters, the flows, and the properties of each flow's worker and connectors.

A key belongs to the driver, to a cluster (`A.bootstrap.servers`), to a flow (`A->B.enabled`), or, at the top level, to
all flows. The properties of a connector have five layers. A later layer takes precedence over an earlier one:

1. the keys of connectors at the top level
2. the providers of variables, and the replication policy
3. the keys of the source cluster, as `source.cluster.…`, `source.consumer.…` and so on
4. the keys of the target cluster, as `target.cluster.…`, `target.producer.…` and so on
5. the keys of the flow

A worker resolves the variables of its own properties. Variables in the properties of connectors stay, because the
worker that runs a connector resolves them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.config.definition import ConfigValue
from kcli.config.properties import Properties
from kcli.config.providers import resolve
from kcli.config.values import Values
from kcli.connect.config.clients import with_prefix
from kcli.connect.config.rest_listeners import RestConfig, rest_config
from kcli.connectors.mirror.keys import CLIENT_KEYS
from kcli.mirror.config.keys import (
    CLIENT_PREFIXES,
    CLUSTERS,
    CONNECTOR_KEYS,
    DRIVER,
    EMIT_HEARTBEATS,
    ENABLED,
    INTERNAL_REST,
    POLICY_PREFIX,
    PROVIDERS_PREFIX,
    WORKER_PREFIXES,
)
from kcli.mirror.config.unknown_keys import warnings_of
from kcli.model.java_order import hash_order, map_order, string_hash

_PACKAGE = "org.apache.kafka.connect.mirror."
CONNECTORS = ("MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector")
"""The names of the connectors of every flow, in the order in which they are configured. Each name is also that of a
class in Java's package."""

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass(frozen=True, slots=True)
class Flow:
    """A direction of replication between two clusters, by their aliases."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def prefix(self) -> str:
        return f"{self}."


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """The content of mm2.properties. `clusters` and `flows` are in the order of Java's sets, in which Java logs them.

    `rest` is None if the internal REST server is off. `texts` are the resolved properties.
    """

    clusters: Sequence[str]
    flows: Sequence[Flow]
    rest: RestConfig | None
    texts: Mapping[str, str]
    raw: Properties
    """The properties with the variables as they are in the file."""
    warnings: Sequence[str]

    def flows_to(self, clusters: Sequence[str]) -> Sequence[Flow]:
        """The flows whose target is one of these clusters."""
        return [flow for flow in self.flows if flow.target in clusters]

    def worker(self, flow: Flow) -> dict[str, str]:
        """The properties of the Connect worker of a flow. Their variables are not resolved."""
        source = flow.source
        return {
            "client.id": str(flow),
            "group.id": f"{source}-mm2",
            "offset.storage.topic": f"mm2-offsets.{source}.internal",
            "status.storage.topic": f"mm2-status.{source}.internal",
            "config.storage.topic": f"mm2-configs.{source}.internal",
            "key.converter": _BYTES,
            "value.converter": _BYTES,
            "header.converter": _BYTES,
            **_cluster(self.raw, flow.target),
            **_beginning(self.raw, (*WORKER_PREFIXES, PROVIDERS_PREFIX)),
        }

    def connector(self, flow: Flow, name: str) -> dict[str, str]:
        """The configuration of a connector of a flow. Its variables are not resolved."""
        return {
            "name": name,
            "connector.class": _PACKAGE + name,
            "source.cluster.alias": flow.source,
            "target.cluster.alias": flow.target,
            ENABLED: "false",
            **{key: text for key, text in self.raw.items() if key in CONNECTOR_KEYS},
            **_beginning(self.raw, (PROVIDERS_PREFIX, POLICY_PREFIX)),
            **_sided("source.", _cluster(self.raw, flow.source)),
            **_sided("target.", _cluster(self.raw, flow.target)),
            **with_prefix(self.raw, flow.prefix),
        }


def mirror_config(properties: Mapping[str, str]) -> MirrorConfig:
    """Raises ConfigError with Kafka's text, if Kafka has this error."""
    raw = Properties()
    raw.update_from(properties, where="")
    texts = Properties()
    texts.update_from(raw, where="")
    resolve(texts)
    values = Values(DRIVER.parse(texts))
    clusters = hash_order(values.names(CLUSTERS))
    flows = [
        flow
        for flow in (Flow(source, target) for source in clusters for target in clusters if source != target)
        if _is_on(texts, flow.prefix + ENABLED) or _emits_heartbeats(texts, flow)
    ]
    has_rest = values.boolean(INTERNAL_REST)
    return MirrorConfig(
        clusters=clusters,
        flows=map_order(flows, lambda flow: string_hash(str(flow))),
        rest=_rest(texts, values.values) if has_rest else None,
        texts=texts,
        raw=raw,
        warnings=warnings_of(raw, clusters, has_rest=has_rest),
    )


def _rest(texts: Mapping[str, str], values: Mapping[str, ConfigValue]) -> RestConfig:
    """The internal server has no resources for administrators, and no logins."""
    return rest_config(texts, {**values, "admin.listeners": (), "rest.extension.classes": ()})


def _is_on(texts: Mapping[str, str], key: str) -> bool:
    """Whether a key is true. As in Java, any other text is false."""
    return texts.get(key, "").lower() == "true"


def _emits_heartbeats(texts: Mapping[str, str], flow: Flow) -> bool:
    for key in (flow.prefix + EMIT_HEARTBEATS, EMIT_HEARTBEATS):
        if key in texts:
            return _is_on(texts, key)
    return True


def _beginning(texts: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    return {key: text for key, text in texts.items() if key.startswith(prefixes)}


def _cluster(texts: Mapping[str, str], alias: str) -> dict[str, str]:
    """The keys of a cluster. Each key of a client is also there for the producer, the consumer and the admin client."""
    own = with_prefix(texts, f"{alias}.")
    shared = {key: own.get(key, texts.get(key)) for key in CLIENT_KEYS}
    clients = {key: text for key, text in shared.items() if text is not None}
    prefixed = {f"{kind}.{key}": text for kind in CLIENT_PREFIXES for key, text in clients.items()}
    return {**clients, **prefixed, **own}


def _sided(side: str, cluster: Mapping[str, str]) -> dict[str, str]:
    """The keys of a cluster in a connector: `source.consumer.…` for a kind of client, `source.cluster.…` for others."""
    return {
        f"{side}{key}" if key.startswith(CLIENT_PREFIXES) else f"{side}cluster.{key}": text
        for key, text in cluster.items()
    }

"""The properties of the Kafka clients that a worker and its tasks use, under the names of Java's clients.

A worker's own clients read the worker's properties. A task's producer and consumer read only the properties with the
prefix `producer.` or `consumer.`, and bootstrap.servers. The admin client of a connector reads both. A connector may
override keys of its clients with the prefixes `producer.override.`, `consumer.override.` and `admin.override.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kcli.config.admin import ADMIN
from kcli.config.consumer import CONSUMER
from kcli.config.definition import ConfigDef
from kcli.config.producer import PRODUCER
from kcli.connect.config.override_policy import OverridePolicy
from kcli.connect.model import Config
from kcli.formats.connect.errors import ConnectException

_LONG_MAX = str(2**63 - 1)
_INT_MAX = str(2**31 - 1)
# A task's producer retries for ever, because an error of a broker must not lose or reorder records.
_PRODUCER_DEFAULTS: Mapping[str, str] = {
    "max.block.ms": _LONG_MAX,
    "enable.idempotence": "false",
    "acks": "all",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": _INT_MAX,
}
_CONSUMER_DEFAULTS: Mapping[str, str] = {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}


class ClientKind(StrEnum):
    """A kind of client. The text is the prefix of its keys, without the dot."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"

    @property
    def prefix(self) -> str:
        return f"{self}."

    @property
    def override_prefix(self) -> str:
        return f"{self}.override."

    @property
    def keys(self) -> ConfigDef:
        return _KEYS[self]


_KEYS = {ClientKind.PRODUCER: PRODUCER, ClientKind.CONSUMER: CONSUMER, ClientKind.ADMIN: ADMIN}


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """Makes the properties of clients. `texts` are the properties of the worker."""

    texts: Mapping[str, str]
    policy: OverridePolicy

    def worker(self, kind: ClientKind) -> dict[str, str]:
        """The properties of a client of the worker itself, such as the producer of the config topic."""
        return {key: text for key, text in self.texts.items() if key in kind.keys}

    def producer(self, client_id: str, connector: Config) -> dict[str, str]:
        """The properties of the producer of a source task, or of a dead-letter queue."""
        return {
            **self._servers(),
            **_PRODUCER_DEFAULTS,
            "client.id": client_id,
            **with_prefix(self.texts, ClientKind.PRODUCER.prefix),
            **self._overrides(ClientKind.PRODUCER, connector),
        }

    def consumer(self, client_id: str, group_id: str, connector: Config) -> dict[str, str]:
        """The properties of the consumer of a sink task. The connector may override the group."""
        return {
            **self._servers(),
            **_CONSUMER_DEFAULTS,
            "group.id": group_id,
            "client.id": client_id,
            **with_prefix(self.texts, ClientKind.CONSUMER.prefix),
            **self._overrides(ClientKind.CONSUMER, connector),
        }

    def admin(self, client_id: str, connector: Config) -> dict[str, str]:
        """The properties of the admin client of a connector."""
        return {
            "client.id": client_id,
            **self.worker(ClientKind.ADMIN),
            **with_prefix(self.texts, ClientKind.ADMIN.prefix),
            **self._overrides(ClientKind.ADMIN, connector),
        }

    def _servers(self) -> Mapping[str, str]:
        return {"bootstrap.servers": self.texts["bootstrap.servers"]}

    def _overrides(self, kind: ClientKind, connector: Config) -> Mapping[str, str]:
        overrides = with_prefix(connector, kind.override_prefix)
        refused = [key for key in overrides if self.policy.refusal(key) is not None]
        if refused:
            # The validation of a configuration refuses these keys too. But the worker may have another policy now.
            raise ConnectException(f"Client Config Overrides not allowed {refused}")
        return overrides


def consumer_group_id(connector: str) -> str:
    """The group of a sink connector's consumers, unless the connector overrides it."""
    return f"connect-{connector}"


def with_prefix(texts: Mapping[str, str | None], prefix: str) -> dict[str, str]:
    """The keys that begin with `prefix`, without it. A key with null counts as missing."""
    return {
        key.removeprefix(prefix): text
        for key, text in texts.items()
        if text is not None and key.startswith(prefix)
    }

"""The stores of a worker in a group: its three internal topics, and the offsets topics of connectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from kcli.client.client import Client
from kcli.client.config import ClientConfig
from kcli.client.topic_table.topic import TableTopic
from kcli.connect.config.worker import ExactlyOnceSource, GroupConfig, InternalTopic
from kcli.connect.stores.configs import Configs
from kcli.connect.stores.offsets import ConnectorOffsets, Offsets
from kcli.connect.stores.statuses import Statuses
from kcli.connect.stores.store import OffsetStore
from kcli.connect.stores.topic_log import LogTopic, TopicLog
from kcli.runtime.clock import Clock

OFFSETS_KEY = "offset.storage.topic"


@dataclass(frozen=True, slots=True)
class InternalTopics:
    """Makes the stores of a worker.

    `config` has the settings of the worker's own clients. `admin` is the client that creates topics.
    """

    group: GroupConfig
    config: ClientConfig
    admin: Client
    clock: Clock
    open_client: Callable[[ClientConfig], Client] = Client

    def configs(self) -> Configs:
        writes_in_transactions = self.group.exactly_once_source.leader_writes_in_transactions
        settings = LogTopic(
            topic=_table_topic(self.group.config_topic),
            key="config.storage.topic",
            purpose="connector configurations",
            client_id=f"{client_id_base(self.group)}configs",
            has_one_partition=True,
            read_committed=self._is_exactly_once,
            transactional_id=leader_transactional_id(self.group) if writes_in_transactions else None,
        )
        return Configs(self._log(settings))

    def statuses(self) -> Statuses:
        settings = LogTopic(
            topic=_table_topic(self.group.status_topic),
            key="status.storage.topic",
            purpose="connector and task statuses",
            client_id=f"{client_id_base(self.group)}statuses",
        )
        return Statuses(self._log(settings), self.clock)

    def offsets(self) -> Offsets:
        settings = LogTopic(
            topic=_table_topic(self.group.offset_topic),
            key=OFFSETS_KEY,
            purpose="source connector offsets",
            client_id=f"{client_id_base(self.group)}offsets",
            read_committed=self._is_exactly_once,
        )
        return Offsets(self._log(settings))

    def connector_offsets(
        self, topic: str, client_id: str, config: ClientConfig, admin: Client, workers: OffsetStore
    ) -> ConnectorOffsets:
        """The offsets of a connector with a topic of its own, which is created like that of the worker.

        `config` and `admin` are those of the connector, because its topic may be in another cluster.
        """
        settings = LogTopic(
            topic=dataclasses.replace(_table_topic(self.group.offset_topic), name=topic),
            key=OFFSETS_KEY,
            purpose="source connector offsets",
            client_id=client_id,
            read_committed=self._is_exactly_once,
        )
        return ConnectorOffsets(
            Offsets(TopicLog(settings, config, admin, self.clock, self.open_client)), workers
        )

    @property
    def _is_exactly_once(self) -> bool:
        return self.group.exactly_once_source is ExactlyOnceSource.ENABLED

    def _log(self, settings: LogTopic) -> TopicLog:
        return TopicLog(settings, self.config, self.admin, self.clock, self.open_client)


def client_id_base(group: GroupConfig) -> str:
    """The begin of the client ids of a worker: `<group.id>-`, or `<group.id>-<client.id>-`."""
    return f"{group.group_id}-{group.client_id}-" if group.client_id else f"{group.group_id}-"


def leader_transactional_id(group: GroupConfig) -> str:
    """The transactional id of the leader of a group (KIP-618)."""
    return f"connect-cluster-{group.group_id}"


def _table_topic(topic: InternalTopic) -> TableTopic:
    return TableTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=topic.settings,
    )

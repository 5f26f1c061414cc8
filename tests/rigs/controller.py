"""A controller without a log. It replays decisions at once, as the shell does after the append."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from kcli.config.features import METADATA_VERSION, supported_ranges
from kcli.controller import brokers
from kcli.controller.api import (
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CREATE_TOPICS,
    ControllerApi,
    ControllerRequestContext,
)
from kcli.controller.bootstrap import bootstrap_records, encode_records, first_log_records
from kcli.controller.controller import Controller
from kcli.controller.decision import Decision, DecisionSteps
from kcli.controller.settings import ControllerSettings
from kcli.metadata.image import MetadataImage, PartitionImage, VersionRange
from kcli.metadata.replay import ImageReplayer
from kcli.protocol.messages import broker_heartbeat as hb
from kcli.protocol.messages import broker_registration as br
from kcli.protocol.messages import create_topics as ct
from kcli.runtime.rng import SystemRng

CLUSTER_ID = "Z29sZGVuLWNsdXN0ZXItMQ"
FEATURES = {
    "metadata.version": 27,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "transaction.version": 2,
}


class ControllerRig:
    def __init__(self, features: dict[str, int] | None = None, **settings: Any) -> None:
        self.now_ms = 1_000
        supported = {name: VersionRange(*levels) for name, levels in supported_ranges().items()}
        self.settings = ControllerSettings(node_id=1, supported_features=supported, **settings)
        replayer = ImageReplayer(MetadataImage(cluster_id=CLUSTER_ID))
        self.controller = Controller(replayer, self.settings, SystemRng(7), self.now_ms)
        self.deltas = []
        self.replay(first_log_records(bootstrap_records(features or FEATURES), self.settings.static_config))

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def replay(self, records: Iterable[Any]) -> None:
        records = list(records)
        if not records:
            return
        encode_records(records, self._metadata_version(records))  # fails if a record cannot be written
        last = self.controller.next_offset + len(records) - 1
        delta = self.controller.replay(records, last_offset=last, epoch=1, timestamp_ms=self.now_ms)
        self.deltas.append(delta)

    def _metadata_version(self, records: Iterable[Any]) -> int:
        levels = [each.feature_level for each in records if getattr(each, "name", "") == METADATA_VERSION]
        return max(levels, default=self.image.metadata_version)

    def decide(self, api: ControllerApi, request: Any, **context: Any) -> Decision:
        if api.arrived is not None:
            api.arrived(self.controller, request, self.now_ms)
        return self.last_step(
            api.decide(self.controller, request, ControllerRequestContext(**context), self.now_ms)
        )

    def last_step(self, decided: Decision | DecisionSteps) -> Decision:
        """Makes all steps of a decision, and returns the last one."""
        if isinstance(decided, Decision):
            return decided
        while True:
            try:
                self.replay(next(decided))
            except StopIteration as last:
                return last.value

    def fence_expired(self, exempt: int | None = None) -> bool:
        return self.obey(self.last_step(brokers.fence_expired(self.controller, self.now_ms, exempt=exempt)))

    def obey(self, decision: Decision) -> Any:
        self.replay(decision.records)
        return decision.response

    # Brokers.

    def registration(
        self,
        broker_id: int,
        *,
        incarnation: int = 1,
        rack: str | None = None,
        directories: int = 1,
        previous_epoch: int = -1,
        **changes: Any,
    ) -> br.BrokerRegistrationRequest:
        fields = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": uuid.UUID(int=broker_id * 1000 + incarnation),
            "listeners": (br.Listener(name="PLAINTEXT", host=f"host{broker_id}", port=9092),),
            "features": tuple(
                br.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in supported_ranges().items()
            ),
            "rack": rack,
            "log_dirs": tuple(uuid.UUID(int=broker_id * 10_000 + index) for index in range(directories)),
            "previous_broker_epoch": previous_epoch,
        }
        return br.BrokerRegistrationRequest(**{**fields, **changes})

    def register(self, broker_id: int, **changes: Any) -> int:
        request = self.registration(broker_id, **changes)
        return self.obey(self.decide(BROKER_REGISTRATION, request)).broker_epoch

    def heartbeat(
        self,
        broker_id: int,
        *,
        epoch: int | None = None,
        offset: int | None = None,
        fence: bool = False,
        shut_down: bool = False,
        offline: tuple[uuid.UUID, ...] = (),
    ) -> hb.BrokerHeartbeatResponse:
        request = hb.BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].epoch if epoch is None else epoch,
            current_metadata_offset=self.image.offset if offset is None else offset,
            want_fence=fence,
            want_shut_down=shut_down,
            offline_log_dirs=tuple(offline),
        )
        return self.obey(self.decide(BROKER_HEARTBEAT, request))

    def add_brokers(self, *broker_ids: int, **changes: Any) -> None:
        for broker_id in broker_ids:
            self.register(broker_id, **changes)
            self.heartbeat(broker_id)

    # Topics.

    def create(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        *,
        assignments: dict[Any, Any] | None = None,
        configs: dict[str, str] | None = None,
        validate: bool = False,
    ) -> ct.CreatableTopicResult:
        topic = creatable(name, partitions, replication_factor, assignments, configs)
        request = ct.CreateTopicsRequest(topics=(topic,), validate_only=validate)
        (result,) = self.obey(self.decide(CREATE_TOPICS, request)).topics
        return result

    def partition(self, topic: str, number: int = 0) -> PartitionImage:
        return self.image.partition(topic, number)


def creatable(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    assignments: dict[Any, Any] | None = None,
    configs: dict[Any, Any] | None = None,
) -> ct.CreatableTopic:
    if assignments is not None:
        partitions = replication_factor = -1
    return ct.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=tuple(
            ct.CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(replicas))
            for index, replicas in (assignments or {}).items()
        ),
        configs=tuple(
            ct.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ),
    )

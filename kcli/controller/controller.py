"""The controller: every decision about the cluster, as pure methods on one image.

A method takes a request and answers with a `Decision`: the records to append and the response to send once they are
committed. Only `replay` moves the state, live and on reload alike, so a restart and normal running are the same code.
The shell must append the records of a decision and replay them before it asks for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kcli.controller import (
    brokers,
    configs,
    features,
    leadership,
    producer_ids,
    reassignments,
    replicas,
    topics,
)
from kcli.controller.brokers import BrokerContext
from kcli.controller.configs import ConfigChange, ResourceChange
from kcli.controller.decision import Decision, decide
from kcli.controller.sessions import BrokerSessions
from kcli.controller.settings import ControllerSettings
from kcli.controller.topics import Charge, TopicContext, no_charge
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import ControllerRegistration, MetadataImage
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot import controller_record
from kcli.model.configs import ConfigOperation
from kcli.protocol.messages import (
    allocate_producer_ids as ap,
)
from kcli.protocol.messages import (
    alter_configs as ac,
)
from kcli.protocol.messages import (
    alter_partition as al,
)
from kcli.protocol.messages import (
    alter_partition_reassignments as ar,
)
from kcli.protocol.messages import (
    assign_replicas_to_dirs as ad,
)
from kcli.protocol.messages import (
    broker_heartbeat as hb,
)
from kcli.protocol.messages import (
    broker_registration as br,
)
from kcli.protocol.messages import (
    create_partitions as cp,
)
from kcli.protocol.messages import (
    create_topics as ct,
)
from kcli.protocol.messages import (
    delete_topics as dt,
)
from kcli.protocol.messages import (
    elect_leaders as el,
)
from kcli.protocol.messages import (
    incremental_alter_configs as ic,
)
from kcli.protocol.messages import (
    list_partition_reassignments as lr,
)
from kcli.protocol.messages import (
    unregister_broker as ub,
)
from kcli.protocol.messages import (
    update_features as uf,
)
from kcli.protocol.records.metadata import AbortTransactionRecord, MetadataRecord, NoOpRecord
from kcli.runtime.rng import Rng

if TYPE_CHECKING:
    from kcli.protocol.messages import alter_client_quotas as aq
    from kcli.protocol.messages import alter_user_scram_credentials as au


class Controller:
    def __init__(self, replayer: ImageReplayer, settings: ControllerSettings, rng: Rng, now_ms: int) -> None:
        self._replayer = replayer
        self._settings = settings
        self._rng = rng
        self._sessions = BrokerSessions(settings.broker_session_timeout_ms, now_ms)
        self.next_offset = replayer.image.offset + 1

    @property
    def image(self) -> MetadataImage:
        """What has been appended, committed or not."""
        return self._replayer.image

    @property
    def in_transaction(self) -> bool:
        return self._replayer.in_transaction

    def replay(
        self, records: Iterable[MetadataRecord], *, last_offset: int, epoch: int, timestamp_ms: int
    ) -> MetadataDelta | None:
        """A batch of the log, in order. None while a metadata transaction is open."""
        self.next_offset = last_offset + 1
        return self._replayer.replay(records, last_offset=last_offset, epoch=epoch, timestamp_ms=timestamp_ms)

    def skip(self, last_offset: int, epoch: int, timestamp_ms: int) -> None:
        """A control batch of the log."""
        self.next_offset = last_offset + 1
        self._replayer.skip(last_offset, epoch, timestamp_ms)

    # Topics.

    def create_topics(
        self,
        request: ct.CreateTopicsRequest,
        *,
        describable: Callable[[str], bool] = lambda _topic: True,
        charge: Charge = no_charge,
    ) -> Decision[ct.CreateTopicsResponse]:
        return topics.create_topics(self._topic_context(), request, describable=describable, charge=charge)

    def create_partitions(
        self, request: cp.CreatePartitionsRequest, charge: Charge = no_charge
    ) -> Decision[cp.CreatePartitionsResponse]:
        return topics.create_partitions(self._topic_context(), request, charge)

    def delete_topics(
        self, request: dt.DeleteTopicsRequest, api_version: int, charge: Charge = no_charge
    ) -> Decision[dt.DeleteTopicsResponse]:
        return topics.delete_topics(self.image, self._settings, request, api_version, charge)

    def _topic_context(self) -> TopicContext:
        return TopicContext(self.image, self._settings, self._rng)

    # Configs.

    def incremental_alter_configs(
        self, request: ic.IncrementalAlterConfigsRequest
    ) -> Decision[ic.IncrementalAlterConfigsResponse]:
        asked = [
            ResourceChange(
                resource.resource_type,
                resource.resource_name,
                [
                    ConfigChange(config.name, ConfigOperation(config.config_operation), config.value)
                    for config in resource.configs
                ],
            )
            for resource in request.resources
        ]
        records, errors = configs.alter_all(self.image, asked, self._settings)
        response = ic.IncrementalAlterConfigsResponse(
            responses=tuple(
                ic.AlterConfigsResourceResponse(
                    error_code=error.code,
                    error_message=error.message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource, error in zip(request.resources, errors, strict=True)
            )
        )
        return decide([] if request.validate_only else records, response)

    def alter_configs(self, request: ac.AlterConfigsRequest) -> Decision[ac.AlterConfigsResponse]:
        asked = [
            ResourceChange(
                resource.resource_type,
                resource.resource_name,
                [ConfigChange(config.name, ConfigOperation.SET, config.value) for config in resource.configs],
                replace_all=True,
            )
            for resource in request.resources
        ]
        records, errors = configs.alter_all(self.image, asked, self._settings)
        response = ac.AlterConfigsResponse(
            responses=tuple(
                ac.AlterConfigsResourceResponse(
                    error_code=error.code,
                    error_message=error.message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource, error in zip(request.resources, errors, strict=True)
            )
        )
        return decide([] if request.validate_only else records, response)

    # Quotas and credentials: asked for so rarely that a start does without them.

    def alter_client_quotas(
        self, request: aq.AlterClientQuotasRequest, resolvable: Callable[[str], bool]
    ) -> Decision[aq.AlterClientQuotasResponse]:
        from kcli.controller import client_quotas

        return client_quotas.alter_client_quotas(self.image, request, resolvable=resolvable)

    def alter_user_scram_credentials(
        self, request: au.AlterUserScramCredentialsRequest
    ) -> Decision[au.AlterUserScramCredentialsResponse]:
        from kcli.controller import scram

        return scram.alter_user_scram_credentials(self.image, request)

    # Brokers and their replicas.

    def register_broker(
        self, request: br.BrokerRegistrationRequest, now_ms: int
    ) -> Decision[br.BrokerRegistrationResponse]:
        return brokers.register_broker(self._broker_context(now_ms), request)

    def heartbeat(
        self, request: hb.BrokerHeartbeatRequest, now_ms: int
    ) -> Decision[hb.BrokerHeartbeatResponse]:
        return brokers.heartbeat(self._broker_context(now_ms), request)

    def fence_expired(self, now_ms: int, *, exempt: int | None = None) -> Sequence[MetadataRecord]:
        """The records that fence a broker that fell silent; nothing when all are heard of."""
        return brokers.fence_expired(self._broker_context(now_ms), exempt)

    def unregister_broker(
        self, request: ub.UnregisterBrokerRequest, now_ms: int
    ) -> Decision[ub.UnregisterBrokerResponse]:
        return brokers.unregister_broker(self._broker_context(now_ms), request)

    def alter_partition(
        self, request: al.AlterPartitionRequest, now_ms: int
    ) -> Decision[al.AlterPartitionResponse]:
        return replicas.alter_partition(self._broker_context(now_ms), request)

    def assign_replicas_to_dirs(
        self, request: ad.AssignReplicasToDirsRequest, now_ms: int
    ) -> Decision[ad.AssignReplicasToDirsResponse]:
        return replicas.assign_replicas_to_dirs(self._broker_context(now_ms), request)

    def alter_partition_reassignments(
        self, request: ar.AlterPartitionReassignmentsRequest
    ) -> Decision[ar.AlterPartitionReassignmentsResponse]:
        return reassignments.alter_partition_reassignments(self.image, self._settings, request)

    def list_partition_reassignments(
        self, request: lr.ListPartitionReassignmentsRequest
    ) -> Decision[lr.ListPartitionReassignmentsResponse]:
        return Decision((), reassignments.list_partition_reassignments(self.image, request))

    def elect_leaders(self, request: el.ElectLeadersRequest) -> Decision[el.ElectLeadersResponse]:
        return leadership.elect_leaders(self.image, self._settings, request)

    def allocate_producer_ids(
        self, request: ap.AllocateProducerIdsRequest, now_ms: int
    ) -> Decision[ap.AllocateProducerIdsResponse]:
        return producer_ids.allocate_producer_ids(self._broker_context(now_ms), request)

    def _broker_context(self, now_ms: int) -> BrokerContext:
        return BrokerContext(self.image, self._settings, self._sessions, self.next_offset, now_ms)

    # The cluster itself.

    def update_features(self, request: uf.UpdateFeaturesRequest) -> Decision[uf.UpdateFeaturesResponse]:
        return features.update_features(self.image, self._settings, request)

    def register_controller(self, registration: ControllerRegistration) -> Sequence[MetadataRecord]:
        """A controller says where it is and what it supports; nothing when that is known already."""
        if self.image.controllers.get(registration.id) == registration:
            return ()
        return (controller_record(registration),)

    def abort_transaction(self) -> Sequence[MetadataRecord]:
        """Ends a metadata transaction that the last controller left open."""
        return (AbortTransactionRecord(reason="controller failover"),)

    def no_op(self) -> Sequence[MetadataRecord]:
        """Keeps the high watermark moving while nothing happens, so that everybody sees a live quorum (KIP-835)."""
        return (NoOpRecord(),)

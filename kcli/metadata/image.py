"""The state of the cluster at one offset of the metadata log: topics, brokers, configs, features, ACLs and more.

An image never changes. `MetadataDelta` (delta.py) builds the next image, which shares all unchanged parts with the
image before it. A delta copies the table of topics, and the topics that change. So a topic with ten thousand partitions
is copied once for each delta, and not once for each record.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from kcli.model import topic_names
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.ids import (
    FIRST_LEADER_EPOCH,
    FIRST_PRODUCER_ID,
    NO_OFFSET,
    ZERO_ID,
    BrokerId,
    LeaderEpoch,
    Offset,
    ProducerId,
)

# Directory ids with special meanings (KIP-858). The ids of real directories are random and never below 100.
MIGRATING_DIRECTORY = ZERO_ID
UNASSIGNED_DIRECTORY = uuid.UUID(int=1)
LOST_DIRECTORY = uuid.UUID(int=2)

_FIRST_REAL_DIRECTORY = 100

METADATA_VERSION = "metadata.version"


def is_real_directory(directory: uuid.UUID) -> bool:
    """Whether this id names a real directory. Other ids have special meanings, such as "unassigned"."""
    return directory.int >= _FIRST_REAL_DIRECTORY


class LeaderRecoveryState(IntEnum):
    """The state of the leader after an unclean election: whether it must still recover its log (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """The state of a partition in the metadata. `directories` has one directory id for each of `replicas`, in order."""

    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    directories: tuple[uuid.UUID, ...] = ()
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED

    def directory(self, replica: int) -> uuid.UUID:
        """The log directory of this replica. Raises ValueError if the broker has no replica."""
        return self.directories[self.replicas.index(replica)]


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    topic_id: uuid.UUID
    partitions: Mapping[int, PartitionImage]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one listener of a node. The values of `security_protocol`: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3
    SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class VersionRange:
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A registered broker. `epoch` is the offset of the registration's record. This epoch fences earlier runs of the
    broker."""

    id: BrokerId
    epoch: int
    incarnation_id: uuid.UUID
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, VersionRange]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[uuid.UUID, ...] = ()
    is_migrating_zk_broker: bool = False

    @property
    def active(self) -> bool:
        """Whether the broker may lead partitions and join ISRs."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    id: BrokerId
    incarnation_id: uuid.UUID
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, VersionRange]
    zk_migration_ready: bool = False


@dataclass(frozen=True, slots=True)
class AclEntry:
    """One access control entry. Its operation, pattern type and other enums are the numbers of Kafka's wire
    protocol."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The keys that are stored for a password (RFC 5802). No response contains them."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramKey:
    """The key of a SCRAM credential in the image. Mechanism 1 is SCRAM-SHA-256, and mechanism 2 is SCRAM-SHA-512."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A delegation token (KIP-48). Principals have the form `Type:name`. The HMAC is not stored, because it is derived
    from the token id and the secret key."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiration_timestamp_ms: int


# The user, client id or IP address of a quota: (type, name) pairs sorted by type. The name None is the default
# entity.
QuotaEntity = tuple[tuple[str, str | None], ...]
USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""The types of a quota entity."""


class Topics:
    """The topics of one image. A topic can be found by name or by id. Topics are listed in the order of their names."""

    __slots__ = ("_sorted_names", "_unified_names", "by_id", "ids")

    def __init__(self, by_id: Mapping[uuid.UUID, TopicImage], ids: Mapping[str, uuid.UUID]) -> None:
        self.by_id = by_id
        self.ids = ids
        self._sorted_names: tuple[str, ...] | None = None
        self._unified_names: dict[str, str] | None = None

    def topic(self, name: str) -> TopicImage | None:
        topic_id = self.ids.get(name)
        return None if topic_id is None else self.by_id[topic_id]

    def topic_by_id(self, topic_id: uuid.UUID | None) -> TopicImage | None:
        return None if topic_id is None else self.by_id.get(topic_id)

    @property
    def names(self) -> tuple[str, ...]:
        if self._sorted_names is None:
            self._sorted_names = tuple(sorted(self.ids))
        return self._sorted_names

    @property
    def unified_names(self) -> Mapping[str, str]:
        """The topic names that contain '.' or '_', by their names in metrics, in which every '.' is replaced by '_'.
        Two topics must not have the same name in metrics."""
        if self._unified_names is None:
            self._unified_names = {
                topic_names.unify_collision_characters(name): name
                for name in reversed(self.names)
                if topic_names.has_collision_characters(name)
            }
        return self._unified_names

    def with_partitions(self, by_id: Mapping[uuid.UUID, TopicImage]) -> Topics:
        """The same topics with changed partitions. The names do not change, so they need not be sorted again."""
        topics = Topics(by_id, self.ids)
        topics._sorted_names = self._sorted_names
        topics._unified_names = self._unified_names
        return topics

    def __iter__(self) -> Iterator[TopicImage]:
        return (self.by_id[self.ids[name]] for name in self.names)

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, name: object) -> bool:
        return name in self.ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topics) and self.by_id == other.by_id

    __hash__ = None  # type: ignore[assignment]  # not hashable, because it is too large to be a key


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The state after all records of the metadata log up to and including `offset` (-1: no record yet). `epoch` is the
    leader epoch of the last record."""

    cluster_id: str = ""
    offset: Offset = NO_OFFSET
    epoch: LeaderEpoch = FIRST_LEADER_EPOCH
    timestamp_ms: int = 0
    features: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[int, ControllerRegistration] = field(default_factory=dict)
    topics: Topics = field(default_factory=lambda: Topics({}, {}))
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    next_producer_id: ProducerId = FIRST_PRODUCER_ID
    acls: Mapping[uuid.UUID, AclEntry] = field(default_factory=dict)
    scram: Mapping[ScramKey, ScramCredential] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        topic_image = self.topics.topic(topic)
        return None if topic_image is None else topic_image.partitions.get(partition)

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """The dynamic configs of a resource: the keys that are set, and their values."""
        return self.configs.get(resource, _NO_CONFIG)

    def topic_config(self, name: str) -> Mapping[str, str]:
        return self.config(ConfigResource(ConfigResourceType.TOPIC, name))

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version. 0 before the first bootstrap record."""
        return self.features.get(METADATA_VERSION, 0)


_NO_CONFIG: Mapping[str, str] = {}

"""The exceptions of kcli, as one tree.

An expected failure is a `KafkaError`: one class per Kafka error code, with the name that Kafka's clients use. A failing
disk is a `StorageError` and takes its log directory offline. Invalid bytes on a socket are a `ProtocolError` and close
the connection. This file is long because it is one table of Kafka's 134 error codes.

The codes and texts come from Kafka's protocol guide (kafka.apache.org/protocol, "Error Codes"). The texts are part of
the interface, because tools print them and programs compare them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ErrorCode(IntEnum):
    """Kafka's error codes, with their numbers on the wire (int16)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


class KcliError(Exception):
    """The base class of all errors that kcli raises on purpose."""


class ProtocolError(KcliError):
    """A peer sent bytes that are not Kafka's protocol. The connection is closed."""


class StorageError(KcliError):
    """A disk failed or returned wrong bytes. The log directory on that disk goes offline."""


class ShortageError(StorageError):
    """The process has too few free descriptors or too little memory for a file. No disk has failed, so the log
    directory stays online, and a later call may succeed."""


class CorruptRecordError(StorageError):
    """The bytes on disk differ from the bytes that were written: wrong size, magic, or checksum."""


MESSAGE_CHARACTERS_MAX = 8000
"""The longest text of an error for a client. Many texts contain a name from the request, which may have 32 kB. A text
of this length has at most 32,000 bytes, so each version of each response can contain it."""


class KafkaError(KcliError):
    """A failure with a Kafka error code. `message` is a text for the client."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    retriable: bool = False
    default_message: ClassVar[str] = ""
    # If a batch is refused: the errors of single records, as pairs (index in the batch, message) (KIP-467).
    record_errors: tuple[tuple[int, str], ...] = ()
    # If a batch is refused: its fault, for the metrics (a `BatchFault`).
    fault: str = ""

    def __init__(self, message: str | None = None) -> None:
        self.message = self.default_message if message is None else message[:MESSAGE_CHARACTERS_MAX]
        super().__init__(self.message)

    @classmethod
    def java_name(cls) -> str:
        """The fully qualified class name that Kafka's tools print."""
        return f"org.apache.kafka.common.errors.{cls.__name__}"


class UnknownServerException(KafkaError):
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    default_message = "The server experienced an unexpected error when processing the request."


class OffsetOutOfRangeException(KafkaError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE
    default_message = "The requested offset is not within the range of offsets maintained by the server."


class CorruptRecordException(KafkaError):
    code = ErrorCode.CORRUPT_MESSAGE
    retriable = True
    default_message = (
        "This message has failed its CRC checksum, exceeds the valid size, has a null key for a "
        "compacted topic, or is otherwise corrupt."
    )


class UnknownTopicOrPartitionException(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    retriable = True
    default_message = "This server does not host this topic-partition."


class InvalidFetchSizeException(KafkaError):
    code = ErrorCode.INVALID_FETCH_SIZE
    default_message = "The requested fetch size is invalid."


class LeaderNotAvailableException(KafkaError):
    code = ErrorCode.LEADER_NOT_AVAILABLE
    retriable = True
    default_message = (
        "There is no leader for this topic-partition as we are in the middle of a leadership election."
    )


class NotLeaderOrFollowerException(KafkaError):
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    retriable = True
    default_message = (
        "For requests intended only for the leader, this error indicates that the broker is not the "
        "current leader. For requests intended for any replica, this error indicates that the broker "
        "is not a replica of the topic partition."
    )


class TimeoutException(KafkaError):
    code = ErrorCode.REQUEST_TIMED_OUT
    retriable = True
    default_message = "The request timed out."


class BrokerNotAvailableException(KafkaError):
    code = ErrorCode.BROKER_NOT_AVAILABLE
    default_message = "The broker is not available."


class ReplicaNotAvailableException(KafkaError):
    code = ErrorCode.REPLICA_NOT_AVAILABLE
    retriable = True
    default_message = (
        "The replica is not available for the requested topic-partition. Produce/Fetch requests and "
        "other requests intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the"
        " broker is not a replica of the topic-partition."
    )


class RecordTooLargeException(KafkaError):
    code = ErrorCode.MESSAGE_TOO_LARGE
    default_message = (
        "The request included a message larger than the max message size the server will accept."
    )


class ControllerMovedException(KafkaError):
    code = ErrorCode.STALE_CONTROLLER_EPOCH
    default_message = "The controller moved to another broker."


class OffsetMetadataTooLarge(KafkaError):
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    default_message = "The metadata field of the offset request was too large."


class NetworkException(KafkaError):
    code = ErrorCode.NETWORK_EXCEPTION
    retriable = True
    default_message = "The server disconnected before a response was received."


class CoordinatorLoadInProgressException(KafkaError):
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    retriable = True
    default_message = "The coordinator is loading and hence can't process requests."


class CoordinatorNotAvailableException(KafkaError):
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    retriable = True
    default_message = "The coordinator is not available."


class NotCoordinatorException(KafkaError):
    code = ErrorCode.NOT_COORDINATOR
    retriable = True
    default_message = "This is not the correct coordinator."


class InvalidTopicException(KafkaError):
    code = ErrorCode.INVALID_TOPIC_EXCEPTION
    default_message = "The request attempted to perform an operation on an invalid topic."


class RecordBatchTooLargeException(KafkaError):
    code = ErrorCode.RECORD_LIST_TOO_LARGE
    default_message = (
        "The request included message batch larger than the configured segment size on the server."
    )


class NotEnoughReplicasException(KafkaError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS
    retriable = True
    default_message = "Messages are rejected since there are fewer in-sync replicas than required."


class NotEnoughReplicasAfterAppendException(KafkaError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    retriable = True
    default_message = "Messages are written to the log, but to fewer in-sync replicas than required."


class InvalidRequiredAcksException(KafkaError):
    code = ErrorCode.INVALID_REQUIRED_ACKS
    default_message = "Produce request specified an invalid value for required acks."


class IllegalGenerationException(KafkaError):
    code = ErrorCode.ILLEGAL_GENERATION
    default_message = "Specified group generation id is not valid."


class InconsistentGroupProtocolException(KafkaError):
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    default_message = (
        "The group member's supported protocols are incompatible with those of existing members or "
        "first group member tried to join with empty protocol type or empty protocol list."
    )


class InvalidGroupIdException(KafkaError):
    code = ErrorCode.INVALID_GROUP_ID
    default_message = "The group id is invalid."


class UnknownMemberIdException(KafkaError):
    code = ErrorCode.UNKNOWN_MEMBER_ID
    default_message = "The coordinator is not aware of this member."


class InvalidSessionTimeoutException(KafkaError):
    code = ErrorCode.INVALID_SESSION_TIMEOUT
    default_message = (
        "The session timeout is not within the range allowed by the broker (as configured by "
        "group.min.session.timeout.ms and group.max.session.timeout.ms)."
    )


class RebalanceInProgressException(KafkaError):
    code = ErrorCode.REBALANCE_IN_PROGRESS
    default_message = "The group is rebalancing, so a rejoin is needed."


class InvalidCommitOffsetSizeException(KafkaError):
    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    default_message = "The committing offset data size is not valid."


class TopicAuthorizationException(KafkaError):
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    default_message = "Topic authorization failed."


class GroupAuthorizationException(KafkaError):
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    default_message = "Group authorization failed."


class ClusterAuthorizationException(KafkaError):
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    default_message = "Cluster authorization failed."


class InvalidTimestampException(KafkaError):
    code = ErrorCode.INVALID_TIMESTAMP
    default_message = "The timestamp of the message is out of acceptable range."


class UnsupportedSaslMechanismException(KafkaError):
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    default_message = "The broker does not support the requested SASL mechanism."


class IllegalSaslStateException(KafkaError):
    code = ErrorCode.ILLEGAL_SASL_STATE
    default_message = "Request is not valid given the current SASL state."


class UnsupportedVersionException(KafkaError):
    code = ErrorCode.UNSUPPORTED_VERSION
    default_message = "The version of API is not supported."


class TopicExistsException(KafkaError):
    code = ErrorCode.TOPIC_ALREADY_EXISTS
    default_message = "Topic with this name already exists."


class InvalidPartitionsException(KafkaError):
    code = ErrorCode.INVALID_PARTITIONS
    default_message = "Number of partitions is below 1."


class InvalidReplicationFactorException(KafkaError):
    code = ErrorCode.INVALID_REPLICATION_FACTOR
    default_message = "Replication factor is below 1 or larger than the number of available brokers."


class InvalidReplicaAssignmentException(KafkaError):
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    default_message = "Replica assignment is invalid."


class InvalidConfigurationException(KafkaError):
    code = ErrorCode.INVALID_CONFIG
    default_message = "Configuration is invalid."


class NotControllerException(KafkaError):
    code = ErrorCode.NOT_CONTROLLER
    retriable = True
    default_message = "This is not the correct controller for this cluster."


class InvalidRequestException(KafkaError):
    code = ErrorCode.INVALID_REQUEST
    default_message = (
        "This most likely occurs because of a request being malformed by the client library or the "
        "message was sent to an incompatible broker. See the broker logs for more details."
    )


class UnsupportedForMessageFormatException(KafkaError):
    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    default_message = "The message format version on the broker does not support the request."


class PolicyViolationException(KafkaError):
    code = ErrorCode.POLICY_VIOLATION
    default_message = "Request parameters do not satisfy the configured policy."


class OutOfOrderSequenceException(KafkaError):
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    default_message = "The broker received an out of order sequence number."


class DuplicateSequenceException(KafkaError):
    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    default_message = "The broker received a duplicate sequence number."


class InvalidProducerEpochException(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_EPOCH
    default_message = "Producer attempted to produce with an old epoch."


class InvalidTxnStateException(KafkaError):
    code = ErrorCode.INVALID_TXN_STATE
    default_message = "The producer attempted a transactional operation in an invalid state."


class InvalidPidMappingException(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    default_message = (
        "The producer attempted to use a producer id which is not currently assigned to its transactional id."
    )


class InvalidTxnTimeoutException(KafkaError):
    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    default_message = (
        "The transaction timeout is larger than the maximum value allowed by the broker (as "
        "configured by transaction.max.timeout.ms)."
    )


class ConcurrentTransactionsException(KafkaError):
    code = ErrorCode.CONCURRENT_TRANSACTIONS
    retriable = True
    default_message = (
        "The producer attempted to update a transaction while another concurrent operation on the "
        "same transaction was ongoing."
    )


class TransactionCoordinatorFencedException(KafkaError):
    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    default_message = (
        "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current"
        " coordinator for a given producer."
    )


class TransactionalIdAuthorizationException(KafkaError):
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    default_message = "Transactional Id authorization failed."


class SecurityDisabledException(KafkaError):
    code = ErrorCode.SECURITY_DISABLED
    default_message = "Security features are disabled."


class OperationNotAttemptedException(KafkaError):
    code = ErrorCode.OPERATION_NOT_ATTEMPTED
    default_message = (
        "The broker did not attempt to execute this operation. This may happen for batched RPCs where"
        " some operations in the batch failed, causing the broker to respond without trying the rest."
    )


class KafkaStorageException(KafkaError):
    code = ErrorCode.KAFKA_STORAGE_ERROR
    retriable = True
    default_message = "Disk error when trying to access log file on the disk."


class LogDirNotFoundException(KafkaError):
    code = ErrorCode.LOG_DIR_NOT_FOUND
    default_message = "The user-specified log directory is not found in the broker config."


class SaslAuthenticationException(KafkaError):
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    default_message = "SASL Authentication failed."


class UnknownProducerIdException(KafkaError):
    code = ErrorCode.UNKNOWN_PRODUCER_ID
    default_message = (
        "This exception is raised by the broker if it could not locate the producer metadata "
        "associated with the producerId in question. This could happen if, for instance, the "
        "producer's records were deleted because their retention time had elapsed. Once the last "
        "records of the producerId are removed, the producer's metadata is removed from the broker, "
        "and future appends by the producer will return this exception."
    )


class ReassignmentInProgressException(KafkaError):
    code = ErrorCode.REASSIGNMENT_IN_PROGRESS
    default_message = "A partition reassignment is in progress."


class DelegationTokenDisabledException(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    default_message = "Delegation Token feature is not enabled."


class DelegationTokenNotFoundException(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    default_message = "Delegation Token is not found on server."


class DelegationTokenOwnerMismatchException(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    default_message = "Specified Principal is not valid Owner/Renewer."


class UnsupportedByAuthenticationException(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    default_message = (
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation "
        "token authenticated channels."
    )


class DelegationTokenAuthorizationException(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    default_message = "Delegation Token authorization failed."


class DelegationTokenExpiredException(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_EXPIRED
    default_message = "Delegation Token is expired."


class InvalidPrincipalTypeException(KafkaError):
    code = ErrorCode.INVALID_PRINCIPAL_TYPE
    default_message = "Supplied principalType is not supported."


class GroupNotEmptyException(KafkaError):
    code = ErrorCode.NON_EMPTY_GROUP
    default_message = "The group is not empty."


class GroupIdNotFoundException(KafkaError):
    code = ErrorCode.GROUP_ID_NOT_FOUND
    default_message = "The group id does not exist."


class FetchSessionIdNotFoundException(KafkaError):
    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    retriable = True
    default_message = "The fetch session ID was not found."


class InvalidFetchSessionEpochException(KafkaError):
    code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    retriable = True
    default_message = "The fetch session epoch is invalid."


class ListenerNotFoundException(KafkaError):
    code = ErrorCode.LISTENER_NOT_FOUND
    retriable = True
    default_message = (
        "There is no listener on the leader broker that matches the listener on which metadata "
        "request was processed."
    )


class TopicDeletionDisabledException(KafkaError):
    code = ErrorCode.TOPIC_DELETION_DISABLED
    default_message = "Topic deletion is disabled."


class FencedLeaderEpochException(KafkaError):
    code = ErrorCode.FENCED_LEADER_EPOCH
    retriable = True
    default_message = "The leader epoch in the request is older than the epoch on the broker."


class UnknownLeaderEpochException(KafkaError):
    code = ErrorCode.UNKNOWN_LEADER_EPOCH
    retriable = True
    default_message = "The leader epoch in the request is newer than the epoch on the broker."


class UnsupportedCompressionTypeException(KafkaError):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    default_message = "The requesting client does not support the compression type of given partition."


class StaleBrokerEpochException(KafkaError):
    code = ErrorCode.STALE_BROKER_EPOCH
    default_message = "Broker epoch has changed."


class OffsetNotAvailableException(KafkaError):
    code = ErrorCode.OFFSET_NOT_AVAILABLE
    retriable = True
    default_message = (
        "The leader high watermark has not caught up from a recent leader election so the offsets "
        "cannot be guaranteed to be monotonically increasing."
    )


class MemberIdRequiredException(KafkaError):
    code = ErrorCode.MEMBER_ID_REQUIRED
    default_message = (
        "The group member needs to have a valid member id before actually entering a consumer group."
    )


class PreferredLeaderNotAvailableException(KafkaError):
    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    retriable = True
    default_message = "The preferred leader was not available."


class GroupMaxSizeReachedException(KafkaError):
    code = ErrorCode.GROUP_MAX_SIZE_REACHED
    default_message = "The group has reached its maximum size."


class FencedInstanceIdException(KafkaError):
    code = ErrorCode.FENCED_INSTANCE_ID
    default_message = (
        "The broker rejected this static consumer since another consumer with the same "
        "group.instance.id has registered with a different member.id."
    )


class EligibleLeadersNotAvailableException(KafkaError):
    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    retriable = True
    default_message = "Eligible topic partition leaders are not available."


class ElectionNotNeededException(KafkaError):
    code = ErrorCode.ELECTION_NOT_NEEDED
    retriable = True
    default_message = "Leader election not needed for topic partition."


class NoReassignmentInProgressException(KafkaError):
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    default_message = "No partition reassignment is in progress."


class GroupSubscribedToTopicException(KafkaError):
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    default_message = (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    )


class InvalidRecordException(KafkaError):
    code = ErrorCode.INVALID_RECORD
    default_message = "This record has failed the validation on broker and hence will be rejected."


class UnstableOffsetCommitException(KafkaError):
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    retriable = True
    default_message = "There are unstable offsets that need to be cleared."


class ThrottlingQuotaExceededException(KafkaError):
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    retriable = True
    default_message = "The throttling quota has been exceeded."


class ProducerFencedException(KafkaError):
    code = ErrorCode.PRODUCER_FENCED
    default_message = "There is a newer producer with the same transactionalId which fences the current one."


class ResourceNotFoundException(KafkaError):
    code = ErrorCode.RESOURCE_NOT_FOUND
    default_message = "A request illegally referred to a resource that does not exist."


class DuplicateResourceException(KafkaError):
    code = ErrorCode.DUPLICATE_RESOURCE
    default_message = "A request illegally referred to the same resource twice."


class UnacceptableCredentialException(KafkaError):
    code = ErrorCode.UNACCEPTABLE_CREDENTIAL
    default_message = "Requested credential would not meet criteria for acceptability."


class InconsistentVoterSetException(KafkaError):
    code = ErrorCode.INCONSISTENT_VOTER_SET
    default_message = (
        "Indicates that the either the sender or recipient of a voter-only request is not one of the "
        "expected voters."
    )


class InvalidUpdateVersionException(KafkaError):
    code = ErrorCode.INVALID_UPDATE_VERSION
    default_message = "The given update version was invalid."


class FeatureUpdateFailedException(KafkaError):
    code = ErrorCode.FEATURE_UPDATE_FAILED
    default_message = "Unable to update finalized features due to an unexpected server error."


class PrincipalDeserializationException(KafkaError):
    code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    default_message = (
        "Request principal deserialization failed during forwarding. This indicates an internal error"
        " on the broker cluster security setup."
    )


class SnapshotNotFoundException(KafkaError):
    code = ErrorCode.SNAPSHOT_NOT_FOUND
    default_message = "Requested snapshot was not found."


class PositionOutOfRangeException(KafkaError):
    code = ErrorCode.POSITION_OUT_OF_RANGE
    default_message = (
        "Requested position is not greater than or equal to zero, and less than the size of the snapshot."
    )


class UnknownTopicIdException(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_ID
    retriable = True
    default_message = "This server does not host this topic ID."


class DuplicateBrokerRegistrationException(KafkaError):
    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION
    default_message = "This broker ID is already in use."


class BrokerIdNotRegisteredException(KafkaError):
    code = ErrorCode.BROKER_ID_NOT_REGISTERED
    default_message = "The given broker ID was not registered."


class InconsistentTopicIdException(KafkaError):
    code = ErrorCode.INCONSISTENT_TOPIC_ID
    retriable = True
    default_message = "The log's topic ID did not match the topic ID in the request."


class InconsistentClusterIdException(KafkaError):
    code = ErrorCode.INCONSISTENT_CLUSTER_ID
    default_message = "The clusterId in the request does not match that found on the server."


class TransactionalIdNotFoundException(KafkaError):
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    default_message = "The transactionalId could not be found."


class FetchSessionTopicIdException(KafkaError):
    code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    retriable = True
    default_message = "The fetch session encountered inconsistent topic ID usage."


class IneligibleReplicaException(KafkaError):
    code = ErrorCode.INELIGIBLE_REPLICA
    default_message = "The new ISR contains at least one ineligible replica."


class NewLeaderElectedException(KafkaError):
    code = ErrorCode.NEW_LEADER_ELECTED
    default_message = (
        "The AlterPartition request successfully updated the partition state but the leader has changed."
    )


class OffsetMovedToTieredStorageException(KafkaError):
    code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    default_message = "The requested offset is moved to tiered storage."


class FencedMemberEpochException(KafkaError):
    code = ErrorCode.FENCED_MEMBER_EPOCH
    default_message = (
        "The member epoch is fenced by the group coordinator. The member must abandon all its "
        "partitions and rejoin."
    )


class UnreleasedInstanceIdException(KafkaError):
    code = ErrorCode.UNRELEASED_INSTANCE_ID
    default_message = (
        "The instance ID is still used by another member in the consumer group. That member must leave first."
    )


class UnsupportedAssignorException(KafkaError):
    code = ErrorCode.UNSUPPORTED_ASSIGNOR
    default_message = "The assignor or its version range is not supported by the consumer group."


class StaleMemberEpochException(KafkaError):
    code = ErrorCode.STALE_MEMBER_EPOCH
    default_message = (
        "The member epoch is stale. The member must retry after receiving its updated member epoch "
        "via the ConsumerGroupHeartbeat API."
    )


class MismatchedEndpointTypeException(KafkaError):
    code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
    default_message = "The request was sent to an endpoint of the wrong type."


class UnsupportedEndpointTypeException(KafkaError):
    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    default_message = "This endpoint type is not supported yet."


class UnknownControllerIdException(KafkaError):
    code = ErrorCode.UNKNOWN_CONTROLLER_ID
    default_message = "This controller ID is not known."


class UnknownSubscriptionIdException(KafkaError):
    code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    default_message = "Client sent a push telemetry request with an invalid or outdated subscription ID."


class TelemetryTooLargeException(KafkaError):
    code = ErrorCode.TELEMETRY_TOO_LARGE
    default_message = (
        "Client sent a push telemetry request larger than the maximum size the broker will accept."
    )


class InvalidRegistrationException(KafkaError):
    code = ErrorCode.INVALID_REGISTRATION
    default_message = "The controller has considered the broker registration to be invalid."


class TransactionAbortableException(KafkaError):
    code = ErrorCode.TRANSACTION_ABORTABLE
    default_message = (
        "The server encountered an error with the transaction. The client can abort the transaction "
        "to continue using this transactional ID."
    )


class InvalidRecordStateException(KafkaError):
    code = ErrorCode.INVALID_RECORD_STATE
    default_message = "The record state is invalid. The acknowledgement of delivery could not be completed."


class ShareSessionNotFoundException(KafkaError):
    code = ErrorCode.SHARE_SESSION_NOT_FOUND
    retriable = True
    default_message = "The share session was not found."


class InvalidShareSessionEpochException(KafkaError):
    code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
    retriable = True
    default_message = "The share session epoch is invalid."


class FencedStateEpochException(KafkaError):
    code = ErrorCode.FENCED_STATE_EPOCH
    default_message = (
        "The share coordinator rejected the request because the share-group state epoch did not match."
    )


class InvalidVoterKeyException(KafkaError):
    code = ErrorCode.INVALID_VOTER_KEY
    default_message = "The voter key doesn't match the receiving replica's key."


class DuplicateVoterException(KafkaError):
    code = ErrorCode.DUPLICATE_VOTER
    default_message = "The voter is already part of the set of voters."


class VoterNotFoundException(KafkaError):
    code = ErrorCode.VOTER_NOT_FOUND
    default_message = "The voter is not part of the set of voters."


class InvalidRegularExpression(KafkaError):
    code = ErrorCode.INVALID_REGULAR_EXPRESSION
    default_message = "The regular expression is not valid."


class RebootstrapRequiredException(KafkaError):
    code = ErrorCode.REBOOTSTRAP_REQUIRED
    default_message = "Client metadata is stale. The client should rebootstrap to obtain new metadata."


class StreamsInvalidTopologyException(KafkaError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY
    default_message = "The supplied topology is invalid."


class StreamsInvalidTopologyEpochException(KafkaError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH
    default_message = "The supplied topology epoch is invalid."


class StreamsTopologyFencedException(KafkaError):
    code = ErrorCode.STREAMS_TOPOLOGY_FENCED
    default_message = "The supplied topology epoch is outdated."


class ShareSessionLimitReachedException(KafkaError):
    code = ErrorCode.SHARE_SESSION_LIMIT_REACHED
    retriable = True
    default_message = "The limit of share sessions has been reached."


BY_CODE: dict[ErrorCode, type[KafkaError]] = {cls.code: cls for cls in KafkaError.__subclasses__()}


class SslAuthenticationException(KafkaError):
    """A TLS handshake failed. This error has no code on the wire, so the table `BY_CODE` does not contain it.

    The message is the text that Kafka's clients use. `hint` explains the likely mistake to the user.
    """

    default_message = "SSL handshake failed"

    def __init__(self, message: str | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def error_for(code: ErrorCode | int, message: str | None = None) -> KafkaError:
    """Makes the exception for an error code, which must not be NONE. For an unknown code, this is
    UnknownServerException."""
    cls = BY_CODE.get(
        ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
    )
    return (cls or UnknownServerException)(message)

"""The beans of Kafka 4.1: those that exist here, with an action that must move them, and those that do not exist.

A row of MOVED is `action | object name | attribute | change`. The change is a number, or `+` for any growth. A row of
STANDING is `object name | attributes`: beans whose action is in another test, or that describe a state. `$LISTENER`
stands for the tags of a listener. docs/metrics.md has the rows of ABSENT, with the same reasons.
"""

from __future__ import annotations

MOVED = """
create | kafka.controller:type=KafkaController,name=GlobalTopicCount | Value | 1
create | kafka.controller:type=KafkaController,name=GlobalPartitionCount | Value | 2
create | kafka.controller:type=KafkaController,name=LastAppliedRecordOffset | Value | +
create | kafka.controller:type=KafkaController,name=LastCommittedRecordOffset | Value | +
create | kafka.controller:type=KafkaController,name=LastAppliedRecordTimestamp | Value | +
create | kafka.controller:type=KafkaController,name=EventQueueOperationsStartedCount | Value | +
create | kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs | Count | +
create | kafka.controller:type=ControllerEventManager,name=EventQueueProcessingTimeMs | Count | +
create | kafka.server:type=ReplicaManager,name=PartitionCount | Value | 2
create | kafka.server:type=ReplicaManager,name=LeaderCount | Value | 2
create | kafka.server:type=ReplicaManager,name=AtMinIsrPartitionCount | Value | 2
create | kafka.server:type=raft-metrics | high-watermark | +
create | kafka.server:type=raft-metrics | log-end-offset | +
create | kafka.server:type=raft-metrics | append-records-rate | +
create | kafka.server:type=broker-metadata-metrics | last-applied-record-offset | +
create | kafka.server:type=broker-metadata-metrics | last-applied-record-timestamp | +
create | kafka.server:type=BrokerMetadataListener,name=MetadataBatchProcessingTimeUs | Count | +
create | kafka.server:type=BrokerMetadataListener,name=MetadataBatchSizes | Count | +
create | kafka.network:type=RequestMetrics,name=RequestsPerSec,request=CreateTopics,version=7 | Count | 1
create | kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=CreateTopics,error=NONE | Count | 1
produce | kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec | Count | 3
produce | kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t | Count | 3
produce | kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec | Count | 85
produce | kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t | Count | 85
produce | kafka.server:type=BrokerTopicMetrics,name=TotalProduceRequestsPerSec,topic=t | Count | 1
produce | kafka.log:type=Log,name=LogEndOffset,topic=t,partition=0 | Value | 3
produce | kafka.log:type=Log,name=Size,topic=t,partition=0 | Value | 85
produce | kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,version=9 | Count | 1
produce | kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Produce,error=NONE | Count | 1
produce | kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce | Count | 1
produce | kafka.network:type=RequestMetrics,name=LocalTimeMs,request=Produce | Count | 1
produce | kafka.network:type=RequestMetrics,name=RemoteTimeMs,request=Produce | Count | 1
produce | kafka.network:type=RequestMetrics,name=RequestBytes,request=Produce | Count | 1
produce | kafka.server:type=socket-server-metrics,$LISTENER | incoming-byte-total | +
produce | kafka.server:type=socket-server-metrics,$LISTENER | outgoing-byte-total | +
produce | kafka.server:type=socket-server-metrics,$LISTENER | request-total | 1
produce | kafka.server:type=socket-server-metrics,$LISTENER | response-total | 1
produce | kafka.server:type=socket-server-metrics,$LISTENER | network-io-total | +
refuse | kafka.server:type=BrokerTopicMetrics,name=BytesRejectedPerSec,topic=t | Count | +
refuse | kafka.server:type=BrokerTopicMetrics,name=InvalidMessageCrcRecordsPerSec,topic=t | Count | 1
refuse | kafka.server:type=BrokerTopicMetrics,name=InvalidMagicNumberRecordsPerSec,topic=t | Count | 1
refuse | kafka.server:type=BrokerTopicMetrics,name=InvalidOffsetOrSequenceRecordsPerSec,topic=t | Count | 1
refuse | kafka.server:type=BrokerTopicMetrics,name=NoKeyCompactedTopicRecordsPerSec,topic=c | Count | 2
refuse | kafka.server:type=BrokerTopicMetrics,name=FailedProduceRequestsPerSec | Count | 3
refuse | kafka.server:type=BrokerTopicMetrics,name=TotalProduceRequestsPerSec | Count | 5
refuse | kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Produce,error=MESSAGE_TOO_LARGE | Count | 1
read | kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic=t | Count | 85
read | kafka.server:type=BrokerTopicMetrics,name=TotalFetchRequestsPerSec,topic=t | Count | 1
read | kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Fetch,version=12 | Count | 1
read | kafka.network:type=RequestMetrics,name=RequestsPerSec,request=FetchConsumer,version=12 | Count | 1
follow | kafka.network:type=RequestMetrics,name=RequestsPerSec,request=FetchFollower,version=12 | Count | 1
follow | kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Fetch,version=12 | Count | 1
follow | kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec | Count | 0
session | kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions | Value | 1
session | kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached | Value | 1
evict | kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec | Count | 1
park | kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=Fetch | Value | 1
park | kafka.server:type=DelayedOperationPurgatory,name=NumDelayedOperations,delayedOperation=Fetch | Value | 1
park | kafka.network:type=RequestChannel,name=ResponseQueueSize | Value | 1
park | kafka.network:type=RequestChannel,name=ResponseQueueSize,processor=0 | Value | 1
expire | kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType=consumer | Count | 1
expire | kafka.server:type=DelayedOperationPurgatory,name=NumDelayedOperations,delayedOperation=Fetch | Value | -1
several | kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Produce,error=NONE | Count | 2
several | kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Fetch,error=NONE | Count | 3
pipeline | kafka.network:type=RequestMetrics,name=RequestQueueTimeMs,request=Metadata | Max | +
large | kafka.network:type=RequestMetrics,name=ResponseSendTimeMs,request=Fetch | Max | +
large | kafka.server:type=socket-server-metrics,$LISTENER | request-size-max | +
large | kafka.network:type=SocketServer,name=MemoryPoolUsed | Value | 0
join | kafka.server:type=group-coordinator-metrics | group-completed-rebalance-count | 1
join | kafka.server:type=group-coordinator-metrics,protocol=classic | group-count | 1
join | kafka.server:type=group-coordinator-metrics,state=active | num-partitions | 3
join | kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups | Value | 1
join | kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsStable | Value | 1
commit | kafka.server:type=group-coordinator-metrics | offset-commit-count | 2
commit | kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets | Value | 2
commit | kafka.server:type=group-coordinator-metrics | offset-commit-rate | +
heartbeat | kafka.server:type=group-coordinator-metrics | consumer-group-rebalance-count | +
heartbeat | kafka.server:type=group-coordinator-metrics,protocol=consumer | group-count | 1
forget | kafka.server:type=group-coordinator-metrics | offset-deletion-count | 1
forget | kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets | Value | -1
transaction | kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs | Count | +
transaction | kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate | Count | 1
transaction | kafka.server:type=ReplicaManager,name=ProducerIdCount | Value | +
throttle | kafka.server:type=Produce,client-id=greedy | byte-rate | +
throttle | kafka.server:type=Produce,client-id=greedy | throttle-time | +
throttle | kafka.server:type=Produce | queue-size | 1
throttle | kafka.server:type=Request,client-id=greedy | request-time | +
throttle | kafka.server:type=ControllerMutation,client-id=greedy | mutation-rate | +
throttle | kafka.network:type=RequestMetrics,name=ThrottleTimeMs,request=Produce | Max | +
flush | kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs | Count | +
snapshot | kafka.server:type=SnapshotEmitter,name=LatestSnapshotGeneratedBytes | Value | +
connect | kafka.server:type=socket-server-metrics,$LISTENER | connection-count | 1
connect | kafka.server:type=socket-server-metrics,$LISTENER | connection-creation-total | 1
connect | kafka.server:type=socket-server-metrics | broker-connection-accept-rate | +
connect | kafka.server:type=socket-server-metrics,listener=PLAINTEXT | connection-accept-rate | +
connect | kafka.server:type=socket-server-metrics,$SOFTWARE,$LISTENER | connections | 1
limit | kafka.server:type=socket-server-metrics,listener=PLAINTEXT | connection-accept-throttle-time | +
limit | kafka.server:type=socket-server-metrics,listener=PLAINTEXT | ip-connection-accept-throttle-time | +
limit | kafka.server:type=socket-server-metrics,ip=127.0.0.1 | connection-accept-rate | +
hold | kafka.network:type=Acceptor,name=AcceptorBlockedPercent,listener=PLAINTEXT | Count | +
clean | kafka.log:type=LogCleanerManager,name=time-since-last-run-ms | Value | +
"""

STANDING = """
kafka.server:type=KafkaServer,name=BrokerState | Value
kafka.server:type=KafkaServer,name=ClusterId | Value
kafka.server:type=KafkaServer,name=yammer-metrics-count | Value
kafka.server:type=KafkaServer,name=linux-disk-read-bytes | Value
kafka.server:type=KafkaServer,name=linux-disk-write-bytes | Value
kafka.server:type=kafka-metrics-count | count
kafka.server:type=app-info | version, start-time-ms
kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent | Count, OneMinuteRate
kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent | Value
kafka.network:type=SocketServer,name=MemoryPoolAvailable | Value
kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount | Value
kafka.network:type=Processor,name=IdlePercent,networkProcessor=0 | Value
kafka.network:type=RequestChannel,name=RequestQueueSize | Value
kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec | Count
kafka.server:type=BrokerTopicMetrics,name=ReassignmentBytesInPerSec | Count
kafka.server:type=ReplicaManager,name=OfflineReplicaCount | Value
kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions | Value
kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount | Value
kafka.server:type=ReplicaManager,name=ReassigningPartitions | Value
kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount | Value
kafka.server:type=ReplicaManager,name=IsrExpandsPerSec | Count
kafka.server:type=ReplicaManager,name=IsrShrinksPerSec | Count
kafka.server:type=ReplicaManager,name=FailedIsrUpdatesPerSec | Count
kafka.cluster:type=Partition,name=UnderReplicated,topic=t,partition=0 | Value
kafka.cluster:type=Partition,name=InSyncReplicasCount,topic=t,partition=0 | Value
kafka.cluster:type=Partition,name=UnderMinIsr,topic=t,partition=0 | Value
kafka.cluster:type=Partition,name=AtMinIsr,topic=t,partition=0 | Value
kafka.cluster:type=Partition,name=ReplicasCount,topic=t,partition=0 | Value
kafka.cluster:type=Partition,name=LastStableOffsetLag,topic=t,partition=0 | Value
kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica | Value
kafka.server:type=ReplicaFetcherManager,name=MinFetchRate,clientId=Replica | Value
kafka.server:type=ReplicaFetcherManager,name=FailedPartitionsCount,clientId=Replica | Value
kafka.server:type=ReplicaFetcherManager,name=DeadThreadCount,clientId=Replica | Value
kafka.server:type=ReplicaAlterLogDirsManager,name=MaxLag,clientId=ReplicaAlterLogDirs | Value
kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType=follower | Count
kafka.server:type=DelayedDeleteRecordsMetrics,name=ExpiresPerSec | Count
org.apache.kafka.server:type=AssignmentsManager,name=QueuedReplicaToDirAssignments | Value
kafka.server:type=socket-server-metrics,$LISTENER | connection-close-rate
kafka.server:type=socket-server-metrics,$LISTENER | connection-close-total
kafka.server:type=socket-server-metrics,$LISTENER | connection-creation-rate
kafka.server:type=socket-server-metrics,$LISTENER | successful-authentication-rate
kafka.server:type=socket-server-metrics,$LISTENER | successful-authentication-total
kafka.server:type=socket-server-metrics,$LISTENER | successful-reauthentication-total
kafka.server:type=socket-server-metrics,$LISTENER | successful-authentication-no-reauth-total
kafka.server:type=socket-server-metrics,$LISTENER | failed-authentication-total
kafka.server:type=socket-server-metrics,$LISTENER | failed-reauthentication-total
kafka.server:type=socket-server-metrics,$LISTENER | network-io-rate, outgoing-byte-rate
kafka.server:type=socket-server-metrics,$LISTENER | incoming-byte-rate, request-rate
kafka.server:type=socket-server-metrics,$LISTENER | request-size-avg, response-rate
kafka.server:type=socket-server-metrics,$LISTENER | io-wait-ratio, io-wait-time-ns-total
kafka.server:type=socket-server-metrics,$LISTENER | expired-connections-killed-count
kafka.server:type=socket-server-metrics,listener=PLAINTEXT | connection-accept-rate
kafka.server:type=raft-channel-metrics | connection-count, incoming-byte-total, outgoing-byte-total, request-total
kafka.server:type=raft-channel-metrics | response-total
kafka.server:type=txn-marker-channel-metrics | connection-count, request-total
kafka.server:type=forwarding-metrics,BrokerId=1 | connection-count, request-total
kafka.server:type=heartbeat-metrics,BrokerId=1 | connection-count, request-total
kafka.server:type=alter-partition-metrics,BrokerId=1 | connection-count, request-total
kafka.server:type=directory-assignments-metrics,BrokerId=1 | connection-count, request-total
kafka.server:type=ForwardingManager | QueueLength, QueueTimeMs.p99, QueueTimeMs.p999, RemoteTimeMs.p99
kafka.server:type=ForwardingManager | RemoteTimeMs.p999
kafka.log:type=Log,name=NumLogSegments,topic=t,partition=0 | Value
kafka.log:type=Log,name=LogStartOffset,topic=t,partition=0 | Value
kafka.log:type=LogManager,name=OfflineLogDirectoryCount | Value
kafka.log:type=LogCleaner,name=max-buffer-utilization-percent | Value
kafka.log:type=LogCleaner,name=cleaner-recopy-percent | Value
kafka.log:type=LogCleaner,name=max-clean-time-secs | Value
kafka.log:type=LogCleaner,name=max-compaction-delay-secs | Value
kafka.log:type=LogCleaner,name=DeadThreadCount | Value
kafka.log:type=LogCleanerManager,name=max-dirty-percent | Value
kafka.utils:type=Throttler,name=cleaner-io | Count
kafka.controller:type=KafkaController,name=ActiveControllerCount | Value
kafka.controller:type=KafkaController,name=FencedBrokerCount | Value
kafka.controller:type=KafkaController,name=ActiveBrokerCount | Value
kafka.controller:type=KafkaController,name=ControlledShutdownBrokerCount | Value
kafka.controller:type=KafkaController,name=OfflinePartitionsCount | Value
kafka.controller:type=KafkaController,name=PreferredReplicaImbalanceCount | Value
kafka.controller:type=KafkaController,name=MetadataErrorCount | Value
kafka.controller:type=KafkaController,name=IgnoredStaticVoters | Value
kafka.controller:type=KafkaController,name=LastAppliedRecordLagMs | Value
kafka.controller:type=KafkaController,name=TimedOutBrokerHeartbeatCount | Value
kafka.controller:type=KafkaController,name=EventQueueOperationsTimedOutCount | Value
kafka.controller:type=KafkaController,name=NewActiveControllersCount | Value
kafka.controller:type=KafkaController,name=BrokerRegistrationState,broker=1 | Value
kafka.controller:type=KafkaController,name=TimeSinceLastHeartbeatReceivedMs,broker=1 | Value
kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec | Count
kafka.controller:type=ControllerStats,name=ElectionFromEligibleLeaderReplicasPerSec | Count
kafka.server:type=raft-metrics | current-state, current-leader, current-vote, current-vote-directory-id, current-epoch
kafka.server:type=raft-metrics | log-end-epoch, number-of-voters, number-of-observers, uncommitted-voter-change
kafka.server:type=raft-metrics | commit-latency-avg, commit-latency-max, election-latency-avg, election-latency-max
kafka.server:type=raft-metrics | fetch-records-rate, poll-idle-ratio-avg
kafka.server:type=broker-metadata-metrics | last-applied-record-lag-ms, metadata-apply-error-count
kafka.server:type=broker-metadata-metrics | ignored-static-voters
kafka.server:type=MetadataLoader,name=CurrentMetadataVersion | Value
kafka.server:type=MetadataLoader,name=CurrentControllerId | Value
kafka.server:type=MetadataLoader,name=HandleLoadSnapshotCount | Value
kafka.server:type=SnapshotEmitter,name=LatestSnapshotGeneratedAgeMs | Value
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsPreparingRebalance | Value
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsCompletingRebalance | Value
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsDead | Value
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsEmpty | Value
kafka.server:type=group-coordinator-metrics,state=Assigning | consumer-group-count
kafka.server:type=group-coordinator-metrics,state=Reconciling | consumer-group-count
kafka.server:type=group-coordinator-metrics,state=loading | num-partitions
kafka.server:type=group-coordinator-metrics,state=failed | num-partitions
kafka.server:type=group-coordinator-metrics | offset-expiration-rate, offset-expiration-count, offset-deletion-rate
kafka.server:type=group-coordinator-metrics | group-completed-rebalance-rate, consumer-group-rebalance-rate
kafka.server:type=group-coordinator-metrics | partition-load-time-max, partition-load-time-avg, thread-idle-ratio-avg
kafka.server:type=group-coordinator-metrics | event-processing-time-ms-max, event-processing-time-ms-p50
kafka.server:type=group-coordinator-metrics | event-processing-time-ms-p999, event-purgatory-time-ms-p99
kafka.server:type=group-coordinator-metrics | batch-flush-time-ms-p99
kafka.server:type=transaction-coordinator-metrics | partition-load-time-max, partition-load-time-avg
kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnknownDestinationQueueSize | Value
kafka.server:type=ControllerMutation,client-id=greedy | tokens, throttle-time
kafka.server:type=Fetch | queue-size
kafka.server:type=Request | queue-size
kafka.server:type=ControllerMutation | queue-size
kafka.server:type=socket-server-metrics,$LISTENER | reauthentication-latency-avg, reauthentication-latency-max
kafka.server:type=LeaderReplication | byte-rate
kafka.server:type=FollowerReplication | byte-rate
"""

ABSENT = {
    "BrokerTopicMetrics ProduceMessageConversionsPerSec, FetchMessageConversionsPerSec": (
        "Kafka 4 converts no record, so these are always 0"
    ),
    "RequestMetrics MessageConversionsTimeMs, TemporaryMemoryBytes": (
        "Kafka 4 converts no record, so these are always 0"
    ),
    "BrokerTopicMetrics TotalShareFetchRequestsPerSec, FailedShareFetchRequestsPerSec, "
    "TotalShareAcknowledgementRequestsPerSec, FailedShareAcknowledgementRequestsPerSec": (
        "there are no share groups"
    ),
    "ShareGroupMetrics, SharePartitionMetrics, ShareSessionCache, DelayedShareFetchMetrics, "
    "share-coordinator-metrics": ("there are no share groups"),
    "RequestMetrics ResponseQueueTimeMs": (
        "there is no queue of answers; RemoteTimeMs includes the wait for earlier answers"
    ),
    "RequestMetrics DeprecatedRequestsPerSec": (
        "no version that this broker serves is deprecated in Kafka 4.1"
    ),
    "DelayedRemoteFetchMetrics, DelayedRemoteListOffsetsMetrics, RemoteLogManager, "
    "RemoteStorageThreadPool, RLMCopy, RLMFetch": ("there is no tiered storage"),
    "socket-server-metrics select-rate, select-total, io-time-ns-avg, io-time-ns-total, io-ratio, "
    "io-wait-time-ns-avg": ("the event loop does not measure these times"),
    "socket-server-metrics MemoryPoolAvgDepletedPercent, MemoryPoolDepletedTimeTotal": (
        "the waits for memory are not measured; MemoryPoolAvailable shows the memory that is left"
    ),
    "socket-server-metrics connections of each cipher and protocol": (
        "connections are counted for each client software, not for each cipher"
    ),
    "app-info commit-id": ("version has the release, and there is no commit id"),
    "group-coordinator-metrics event-queue-size, event-queue-time-ms": (
        "there is no queue: a request reaches its group immediately"
    ),
    "group-coordinator-metrics share-group-count, streams-group-count, share-group-rebalance-rate, "
    "streams-group-rebalance-rate": ("there are no share groups and no streams groups"),
    "TransactionMarkerChannelManager LogAppendRetryQueueSize": (
        "there is no such queue: the transaction keeps the record, and tries again"
    ),
    "raft-metrics number-unknown-voter-connections": (
        "there are no unknown voters, because the metadata log has the address of each voter"
    ),
    "broker-metadata-metrics metadata-load-error-count": (
        "a node that cannot read its metadata log writes an error to its log and stops"
    ),
    "LogManager remainingLogsToRecover, remainingSegmentsToRecover": (
        "there are no metrics before the recovery ends; the log of the node shows the progress of the "
        "recovery"
    ),
    "ReplicaAlterLogDirsManager MinFetchRate, FailedPartitionsCount, DeadThreadCount": (
        "a move between directories tries again after each error"
    ),
    "DelayedOperationPurgatory AlterAcls, RemoteFetch, RemoteListOffsets, ShareFetch": (
        "no request of these kinds waits here"
    ),
    "DelayedProduceMetrics ExpiresPerSec of each partition": ("the bean counts all partitions together"),
    "Request exempt-request-time": ("the time of requests between brokers is not measured"),
    "AlterLogDirsReplication": (
        "moves between directories obey only replica.alter.log.dirs.io.max.bytes.per.second"
    ),
    "client-metrics, plugins": ("client telemetry (KIP-714) and pluggable Java classes do not exist"),
    "java.lang": ("there is no Java virtual machine; see kcli:type=Process"),
}
"""Names of Kafka without a bean here -> the reason."""


def moved() -> list[tuple[str, str, str, str]]:
    """The rows of MOVED: action, object name, attribute, change."""
    rows = [tuple(cell.strip() for cell in line.split("|")) for line in _lines(MOVED)]
    return [(action, name, attribute, change) for action, name, attribute, change in rows]


def standing() -> list[tuple[str, tuple[str, ...]]]:
    """The rows of STANDING: object name, attributes."""
    rows = [line.split(" | ") for line in _lines(STANDING)]
    return [(name, tuple(attributes.split(", "))) for name, attributes in rows]


def _lines(table: str) -> list[str]:
    software = "clientSoftwareName=a,clientSoftwareVersion=1"
    listener = "listener=PLAINTEXT,networkProcessor=0"
    return table.replace("$SOFTWARE", software).replace("$LISTENER", listener).strip().splitlines()

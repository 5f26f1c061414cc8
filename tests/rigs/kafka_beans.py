"""The beans of Kafka 4.1: those that exist here, with an action that must move them, and those that do not exist.

A row of MOVED, AT_A_LOGIN or FORWARDED is `action | object name | attribute | change`. A row of IN_A_CLUSTER also has
the node after the action.
A change is one of these:

    3, -1    the value grows by this number. A bean that is new had the value 0.
    +, -     the value grows, or falls, by an amount that the action does not determine.
    = 6      the value was different, and is now 6.

A row of STANDING is `object name | attributes`: beans that no action here moves. docs/metrics.md lists the rows of
STANDING and of ABSENT, with the reasons.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

from kcli.server.beans.bean import single_beans
from kcli.server.beans.broker_beans import broker_beans

Beans = dict[str, dict[str, Any]]

STATISTICS = frozenset(
    [
        "EventType",
        "FifteenMinuteRate",
        "FiveMinuteRate",
        "LatencyUnit",
        "Max",
        "Mean",
        "MeanRate",
        "Min",
        "OneMinuteRate",
        "RateUnit",
        "StdDev",
        "50thPercentile",
        "75thPercentile",
        "95thPercentile",
        "98thPercentile",
        "99thPercentile",
        "999thPercentile",
        "Count",
        "Value",
    ]
)
"""The attributes of a meter and of a histogram, which come from the same observations."""
OUTGOING = re.compile(
    "kafka.server:type=(txn-marker-channel|forwarding|heartbeat|alter-partition|directory-assignments|registration)"
    "-metrics(,BrokerId=.*)?$"
)

SHORT = {
    "$SOFTWARE": "clientSoftwareName=a,clientSoftwareVersion=1",
    "$LISTENER": "listener=PLAINTEXT,networkProcessor=0",
    "$SASL": "kafka.server:type=socket-server-metrics,listener=SASL,networkProcessor=0",
    "$FETCHER": "$THREAD,brokerHost=node-4,brokerPort=9092",
    "$THREAD": "clientId=ReplicaFetcherThread-0-4",
    "$PURGATORY": "kafka.server:type=DelayedOperationPurgatory,name",
    "$REQUESTS": "kafka.network:type=RequestMetrics,name=RequestsPerSec,request",
    "$CONTROLLER": "kafka.controller:type=KafkaController,name",
}
"""Short forms in the tables."""

MOVED = """
create | $CONTROLLER=GlobalTopicCount | Value | 1
create | $CONTROLLER=GlobalPartitionCount | Value | 2
create | $CONTROLLER=LastAppliedRecordOffset | Value | +
create | $CONTROLLER=LastCommittedRecordOffset | Value | +
create | $CONTROLLER=LastAppliedRecordTimestamp | Value | +
create | $CONTROLLER=EventQueueOperationsStartedCount | Value | +
create | kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs | Count | +
create | kafka.controller:type=ControllerEventManager,name=EventQueueProcessingTimeMs | Count | +
create | kafka.server:type=ReplicaManager,name=PartitionCount | Value | 2
create | kafka.server:type=ReplicaManager,name=LeaderCount | Value | 2
create | kafka.server:type=ReplicaManager,name=AtMinIsrPartitionCount | Value | 2
create | kafka.server:type=raft-metrics | high-watermark | +
create | kafka.server:type=raft-metrics | log-end-offset | +
create | kafka.server:type=broker-metadata-metrics | last-applied-record-offset | +
create | kafka.server:type=broker-metadata-metrics | last-applied-record-timestamp | +
create | kafka.server:type=BrokerMetadataListener,name=MetadataBatchProcessingTimeUs | Count | +
create | kafka.server:type=BrokerMetadataListener,name=MetadataBatchSizes | Count | +
create | $REQUESTS=CreateTopics,version=7 | Count | 1
create | kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=CreateTopics,error=NONE | Count | 1
create | kafka.server:type=KafkaServer,name=yammer-metrics-count | Value | +
create | kafka.cluster:type=Partition,name=InSyncReplicasCount,topic=t,partition=0 | Value | 1
create | kafka.cluster:type=Partition,name=ReplicasCount,topic=t,partition=0 | Value | 1
create | kafka.cluster:type=Partition,name=AtMinIsr,topic=t,partition=0 | Value | 1
create | kafka.log:type=Log,name=NumLogSegments,topic=t,partition=0 | Value | 1
create | kafka.server:type=socket-server-metrics,$LISTENER | network-io-rate | +
create | kafka.server:type=socket-server-metrics,$LISTENER | outgoing-byte-rate | +
create | kafka.server:type=socket-server-metrics,$LISTENER | incoming-byte-rate | +
create | kafka.server:type=socket-server-metrics,$LISTENER | request-rate | +
create | kafka.server:type=socket-server-metrics,$LISTENER | response-rate | +
create | kafka.server:type=socket-server-metrics,$LISTENER | request-size-avg | +
produce | kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec | Count | 3
produce | kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t | Count | 3
produce | kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec | Count | 85
produce | kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t | Count | 85
produce | kafka.server:type=BrokerTopicMetrics,name=TotalProduceRequestsPerSec,topic=t | Count | 1
produce | kafka.log:type=Log,name=LogEndOffset,topic=t,partition=0 | Value | 3
produce | kafka.log:type=Log,name=Size,topic=t,partition=0 | Value | 85
produce | $REQUESTS=Produce,version=9 | Count | 1
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
refuse | kafka.server:type=BrokerTopicMetrics,name=FailedProduceRequestsPerSec,topic=t | Count | 2
refuse | kafka.server:type=BrokerTopicMetrics,name=BytesRejectedPerSec | Count | +
refuse | kafka.server:type=BrokerTopicMetrics,name=InvalidMessageCrcRecordsPerSec | Count | 1
refuse | kafka.server:type=BrokerTopicMetrics,name=InvalidMagicNumberRecordsPerSec | Count | 1
refuse | kafka.server:type=BrokerTopicMetrics,name=InvalidOffsetOrSequenceRecordsPerSec | Count | 1
refuse | kafka.server:type=BrokerTopicMetrics,name=NoKeyCompactedTopicRecordsPerSec | Count | 2
refuse | kafka.server:type=BrokerTopicMetrics,name=TotalProduceRequestsPerSec | Count | 5
refuse | kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Produce,error=MESSAGE_TOO_LARGE | Count | 1
read | kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic=t | Count | 85
read | kafka.server:type=BrokerTopicMetrics,name=TotalFetchRequestsPerSec,topic=t | Count | 1
read | kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec | Count | 85
read | kafka.server:type=BrokerTopicMetrics,name=TotalFetchRequestsPerSec | Count | 1
read | $REQUESTS=Fetch,version=12 | Count | 1
read | $REQUESTS=FetchConsumer,version=12 | Count | 1
follow | $REQUESTS=FetchFollower,version=12 | Count | 1
follow | $REQUESTS=Fetch,version=12 | Count | 1
session | kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions | Value | 1
session | kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached | Value | 1
evict | kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec | Count | 1
park | $PURGATORY=PurgatorySize,delayedOperation=Fetch | Value | 1
park | $PURGATORY=NumDelayedOperations,delayedOperation=Fetch | Value | 1
park | kafka.network:type=RequestChannel,name=ResponseQueueSize | Value | 1
park | kafka.network:type=RequestChannel,name=ResponseQueueSize,processor=0 | Value | 1
expire | kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType=consumer | Count | 1
expire | $PURGATORY=NumDelayedOperations,delayedOperation=Fetch | Value | -1
several | kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Produce,error=NONE | Count | 2
several | kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Fetch,error=NONE | Count | 3
pipeline | kafka.network:type=RequestMetrics,name=RequestQueueTimeMs,request=Metadata | Max | +
large | kafka.network:type=RequestMetrics,name=ResponseSendTimeMs,request=Fetch | Max | +
large | kafka.server:type=socket-server-metrics,$LISTENER | request-size-max | +
join | kafka.server:type=group-coordinator-metrics | group-completed-rebalance-count | 1
join | kafka.server:type=group-coordinator-metrics,protocol=classic | group-count | 1
join | kafka.server:type=group-coordinator-metrics,state=active | num-partitions | 3
join | kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups | Value | 1
join | kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsStable | Value | 1
join | kafka.server:type=group-coordinator-metrics | group-completed-rebalance-rate | +
join | kafka.server:type=group-coordinator-metrics | event-processing-time-ms-max | +
join | kafka.server:type=group-coordinator-metrics | event-processing-time-ms-p50 | +
join | kafka.server:type=group-coordinator-metrics | event-processing-time-ms-p95 | +
join | kafka.server:type=group-coordinator-metrics | event-processing-time-ms-p99 | +
join | kafka.server:type=group-coordinator-metrics | event-processing-time-ms-p999 | +
join | kafka.server:type=group-coordinator-metrics | event-purgatory-time-ms-max | +
join | kafka.server:type=group-coordinator-metrics | event-purgatory-time-ms-p50 | +
join | kafka.server:type=group-coordinator-metrics | event-purgatory-time-ms-p95 | +
join | kafka.server:type=group-coordinator-metrics | event-purgatory-time-ms-p99 | +
join | kafka.server:type=group-coordinator-metrics | event-purgatory-time-ms-p999 | +
join | kafka.server:type=group-coordinator-metrics | batch-flush-time-ms-max | +
join | kafka.server:type=group-coordinator-metrics | batch-flush-time-ms-p50 | +
join | kafka.server:type=group-coordinator-metrics | batch-flush-time-ms-p95 | +
join | kafka.server:type=group-coordinator-metrics | batch-flush-time-ms-p99 | +
join | kafka.server:type=group-coordinator-metrics | batch-flush-time-ms-p999 | +
join | kafka.server:type=group-coordinator-metrics | partition-load-time-max | +
join | kafka.server:type=group-coordinator-metrics | partition-load-time-avg | +
prepare | kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsPreparingRebalance | Value | 1
prepare | kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsStable | Value | -1
complete | kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsCompletingRebalance | Value | 1
complete | kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsPreparingRebalance | Value | -1
leave | kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsEmpty | Value | 1
leave | kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsCompletingRebalance | Value | -1
commit | kafka.server:type=group-coordinator-metrics | offset-commit-count | 2
commit | kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets | Value | 2
commit | kafka.server:type=group-coordinator-metrics | offset-commit-rate | +
heartbeat | kafka.server:type=group-coordinator-metrics | consumer-group-rebalance-count | 1
heartbeat | kafka.server:type=group-coordinator-metrics | consumer-group-rebalance-rate | +
heartbeat | kafka.server:type=group-coordinator-metrics,state=Stable | consumer-group-count | 1
share | kafka.server:type=group-coordinator-metrics,state=Reconciling | consumer-group-count | 1
share | kafka.server:type=group-coordinator-metrics,state=Stable | consumer-group-count | -1
depart | kafka.server:type=group-coordinator-metrics,state=Reconciling | consumer-group-count | -1
depart | kafka.server:type=group-coordinator-metrics,state=Empty | consumer-group-count | 1
heartbeat | kafka.server:type=group-coordinator-metrics,protocol=consumer | group-count | 1
forget | kafka.server:type=group-coordinator-metrics | offset-deletion-count | 1
forget | kafka.server:type=group-coordinator-metrics | offset-deletion-rate | +
forget | kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets | Value | -1
transaction | kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs | Count | 2
transaction | kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate | Count | 1
transaction | kafka.server:type=ReplicaManager,name=ProducerIdCount | Value | 1
throttle | kafka.server:type=Produce,client-id=greedy | byte-rate | +
throttle | kafka.server:type=Produce,client-id=greedy | throttle-time | +
throttle | kafka.server:type=Produce | queue-size | 1
throttle | kafka.server:type=Request,client-id=greedy | request-time | +
throttle | kafka.server:type=ControllerMutation,client-id=greedy | mutation-rate | +
throttle | kafka.network:type=RequestMetrics,name=ThrottleTimeMs,request=Produce | Max | +
transaction | kafka.server:type=transaction-coordinator-metrics | partition-load-time-max | +
transaction | kafka.server:type=transaction-coordinator-metrics | partition-load-time-avg | +
verify | $REQUESTS=AddPartitionsToTxnVerification,version=5 | Count | 1
verify | kafka.network:type=RequestMetrics,name=TotalTimeMs,request=AddPartitionsToTxnVerification | Count | 1
verify | $REQUESTS=ListClientMetricsResources,version=0 | Count | 1
verify | $REQUESTS=ListConfigResources,version=0 | Count | 1
open_transaction | kafka.cluster:type=Partition,name=LastStableOffsetLag,topic=t,partition=0 | Value | 2
throttle | kafka.server:type=kafka-metrics-count | count | +
throttle_all | kafka.server:type=Fetch,client-id=fed | byte-rate | +
throttle_all | kafka.server:type=Fetch,client-id=hungry | throttle-time | +
throttle_all | kafka.server:type=Fetch | queue-size | 1
throttle_all | kafka.server:type=Request,client-id=busy | throttle-time | +
throttle_all | kafka.server:type=Request | queue-size | 1
throttle_all | kafka.server:type=ControllerMutation,client-id=maker | tokens | -
throttle_all | kafka.server:type=ControllerMutation,client-id=maker | throttle-time | +
throttle_all | kafka.server:type=ControllerMutation | queue-size | 1
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
half | kafka.network:type=SocketServer,name=MemoryPoolUsed | Value | 1000000
half | kafka.network:type=SocketServer,name=MemoryPoolAvailable | Value | -1000000
close | kafka.network:type=SocketServer,name=MemoryPoolUsed | Value | -1000000
close | kafka.server:type=socket-server-metrics,$LISTENER | connection-close-total | 1
close | kafka.server:type=socket-server-metrics,$LISTENER | connection-close-rate | +
close | kafka.server:type=socket-server-metrics,$LISTENER | connection-count | -1
start | kafka.log:type=Log,name=LogStartOffset,topic=t,partition=0 | Value | 2
roll | kafka.log:type=Log,name=NumLogSegments,topic=keys,partition=0 | Value | 2
clean | kafka.log:type=LogCleaner,name=cleaner-recopy-percent | Value | +
clean | kafka.utils:type=Throttler,name=cleaner-io | Count | +
idle | kafka.log:type=LogCleanerManager,name=time-since-last-run-ms | Value | +
idle | kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent | Count | +
idle | kafka.server:type=socket-server-metrics,$LISTENER | io-wait-time-ns-total | +
idle | kafka.server:type=SnapshotEmitter,name=LatestSnapshotGeneratedAgeMs | Value | +
move | kafka.server:type=ReplicaAlterLogDirsManager,name=MaxLag,clientId=ReplicaAlterLogDirs | Value | +
lose | kafka.server:type=ReplicaManager,name=OfflineReplicaCount | Value | +
lose | kafka.log:type=LogManager,name=OfflineLogDirectoryCount | Value | 1
lose | kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory=/tmp/b | Value | 1
"""

IN_A_CLUSTER = """
park | leader | $PURGATORY=PurgatorySize,delayedOperation=Produce | Value | 1
park | leader | $PURGATORY=NumDelayedOperations,delayedOperation=Produce | Value | 1
park | leader | $PURGATORY=PurgatorySize,delayedOperation=DeleteRecords | Value | 1
park | leader | $PURGATORY=NumDelayedOperations,delayedOperation=DeleteRecords | Value | 1
expire | leader | $PURGATORY=PurgatorySize,delayedOperation=Produce | Value | -1
expire | leader | $PURGATORY=NumDelayedOperations,delayedOperation=DeleteRecords | Value | -1
expire | leader | kafka.server:type=DelayedProduceMetrics,name=ExpiresPerSec | Count | 1
expire | leader | kafka.server:type=DelayedDeleteRecordsMetrics,name=ExpiresPerSec | Count | 1
replicate | leader | kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesOutPerSec | Count | 170
replicate | follower | kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec | Count | 85
replicate | follower | kafka.server:type=replica-fetcher-metrics,broker-id=4,fetcher-id=0 | request-total | +
replicate | follower | kafka.server:type=replica-fetcher-metrics,broker-id=4,fetcher-id=0 | response-total | +
replicate | follower | kafka.server:type=replica-fetcher-metrics,broker-id=4,fetcher-id=0 | network-io-total | +
replicate | follower | kafka.server:type=replica-fetcher-metrics,broker-id=4,fetcher-id=0 | incoming-byte-total | +
replicate | follower | kafka.server:type=replica-fetcher-metrics,broker-id=4,fetcher-id=0 | outgoing-byte-total | +
replicate | follower | kafka.server:type=FetcherStats,name=RequestsPerSec,$FETCHER | Count | +
replicate | follower | kafka.server:type=FetcherStats,name=BytesPerSec,$FETCHER | Count | +
wait | leader | kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType=follower | Count | +
replicate | follower | kafka.server:type=ReplicaFetcherManager,name=MinFetchRate,clientId=Replica | Value | +
wait | follower | kafka.server:type=heartbeat-metrics,BrokerId=5 | request-total | +
wait | follower | kafka.server:type=heartbeat-metrics,BrokerId=5 | response-total | +
wait | standby | kafka.server:type=raft-channel-metrics | request-total | +
cut_follower | leader | kafka.server:type=ReplicaManager,name=IsrShrinksPerSec | Count | 1
cut_follower | leader | kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions | Value | 1
cut_follower | leader | kafka.server:type=ReplicaManager,name=AtMinIsrPartitionCount | Value | 1
cut_follower | leader | kafka.cluster:type=Partition,name=UnderReplicated,topic=r,partition=0 | Value | 1
cut_follower | leader | kafka.cluster:type=Partition,name=InSyncReplicasCount,topic=r,partition=0 | Value | -1
cut_follower | leader | kafka.cluster:type=Partition,name=AtMinIsr,topic=r,partition=0 | Value | 1
cut_follower | leader | kafka.server:type=alter-partition-metrics,BrokerId=4 | request-total | 1
cut_other | leader | kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount | Value | 1
cut_other | leader | kafka.cluster:type=Partition,name=UnderMinIsr,topic=r,partition=0 | Value | 1
cut_other | leader | kafka.server:type=ReplicaManager,name=IsrShrinksPerSec | Count | 1
mend | follower | kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica | Value | +
mend | follower | kafka.server:type=FetcherLagMetrics,name=ConsumerLag,$THREAD,topic=r,partition=0 | Value | +
mend | leader | kafka.server:type=ReplicaManager,name=IsrExpandsPerSec | Count | 2
mend | leader | kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions | Value | -1
mend | leader | kafka.cluster:type=Partition,name=UnderMinIsr,topic=r,partition=0 | Value | -1
assign | leader | org.apache.kafka.server:type=AssignmentsManager,name=QueuedReplicaToDirAssignments | Value | 1
assign | assigner | kafka.server:type=directory-assignments-metrics,BrokerId=4 | request-total | +
reassign | leader | kafka.server:type=ReplicaManager,name=ReassigningPartitions | Value | 1
reassign | leader | kafka.cluster:type=Partition,name=ReplicasCount,topic=m,partition=0 | Value | 1
reassigned | leader | kafka.server:type=ReplicaManager,name=ReassigningPartitions | Value | -1
reassigned | leader | kafka.server:type=BrokerTopicMetrics,name=ReassignmentBytesOutPerSec | Count | 85
reassigned | follower | kafka.server:type=BrokerTopicMetrics,name=ReassignmentBytesInPerSec | Count | 85
reassigned | leader | kafka.server:type=LeaderReplication | byte-rate | +
reassigned | follower | kafka.server:type=FollowerReplication | byte-rate | +
isolate_standby | standby | $CONTROLLER=LastAppliedRecordLagMs | Value | +
isolate_standby | standby | kafka.server:type=raft-channel-metrics | connection-close-total | +
isolate_standby | standby | kafka.server:type=raft-channel-metrics | connection-count | -
rejoin_standby | standby | kafka.server:type=raft-channel-metrics | connection-creation-total | +
start_standby | standby | kafka.server:type=registration-metrics,BrokerId=$ID | request-total | +
start_standby | standby | kafka.server:type=registration-metrics,BrokerId=$ID | response-total | +
start_standby | standby | kafka.server:type=MetadataLoader,name=HandleLoadSnapshotCount | Value | +
start_standby | standby | kafka.server:type=raft-metrics | fetch-records-rate | +
start_standby | standby | kafka.server:type=raft-channel-metrics | connection-count | +
start_standby | standby | kafka.server:type=raft-channel-metrics | connection-creation-rate | +
start_standby | standby | kafka.server:type=raft-channel-metrics | incoming-byte-rate | +
start_standby | standby | kafka.server:type=raft-channel-metrics | incoming-byte-total | +
start_standby | standby | kafka.server:type=raft-channel-metrics | network-io-rate | +
start_standby | standby | kafka.server:type=raft-channel-metrics | network-io-total | +
start_standby | standby | kafka.server:type=raft-channel-metrics | outgoing-byte-rate | +
start_standby | standby | kafka.server:type=raft-channel-metrics | outgoing-byte-total | +
start_standby | standby | kafka.server:type=raft-channel-metrics | request-rate | +
start_standby | standby | kafka.server:type=raft-channel-metrics | request-total | +
start_standby | standby | kafka.server:type=raft-channel-metrics | response-rate | +
start_standby | standby | kafka.server:type=raft-channel-metrics | response-total | +
stop_other | active | $CONTROLLER=FencedBrokerCount | Value | 1
stop_other | active | $CONTROLLER=ActiveBrokerCount | Value | -1
stop_leader | leader | kafka.server:type=KafkaServer,name=BrokerState | Value | = 6
stop_leader | active | $CONTROLLER=ControlledShutdownBrokerCount | Value | 1
stop_leader | active | $CONTROLLER=BrokerRegistrationState,broker=4 | Value | -10
stop_leader | active | $CONTROLLER=PreferredReplicaImbalanceCount | Value | 3
kill_follower | active | $CONTROLLER=TimedOutBrokerHeartbeatCount | Value | 1
kill_follower | active | $CONTROLLER=OfflinePartitionsCount | Value | 3
kill_follower | active | $CONTROLLER=TimeSinceLastHeartbeatReceivedMs,broker=5 | Value | +
kill_follower | active | $CONTROLLER=BrokerRegistrationState,broker=5 | Value | = 10
start_leader | active | kafka.controller:type=ControllerStats,name=ElectionFromEligibleLeaderReplicasPerSec | Count | 1
kill_leader | active | kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec | Count | 1
kill_active | third | $CONTROLLER=NewActiveControllersCount | Value | 1
kill_active | third | $CONTROLLER=ActiveControllerCount | Value | 1
kill_active | third | kafka.server:type=MetadataLoader,name=CurrentControllerId | Value | = $ID
kill_active | third | kafka.server:type=raft-metrics | current-leader | = $ID
kill_active | third | kafka.server:type=raft-metrics | current-vote | = $ID
kill_active | third | kafka.server:type=raft-metrics | log-end-epoch | +
kill_active | third | kafka.server:type=raft-metrics | current-epoch | +
kill_active | third | kafka.server:type=raft-metrics | current-state | = leader
kill_active | third | kafka.server:type=raft-metrics | append-records-rate | +
kill_active | third | kafka.server:type=raft-metrics | commit-latency-avg | +
kill_active | third | kafka.server:type=raft-metrics | commit-latency-max | +
kill_active | third | kafka.server:type=raft-metrics | election-latency-avg | +
kill_active | third | kafka.server:type=raft-metrics | election-latency-max | +
"""

AT_A_LOGIN = """
succeed | $SASL | successful-authentication-total | 3
succeed | $SASL | successful-authentication-rate | +
succeed | $SASL | connection-creation-rate | +
fail | $SASL | failed-authentication-total | 1
fail | $SASL | failed-authentication-rate | +
again | $SASL | successful-reauthentication-total | 1
again | $SASL | successful-reauthentication-rate | +
again | $SASL | reauthentication-latency-avg | +
again | $SASL | reauthentication-latency-max | +
again | $SASL | failed-reauthentication-total | 1
again | $SASL | failed-reauthentication-rate | +
expire | $SASL | expired-connections-killed-count | 1
old | $SASL | successful-authentication-no-reauth-total | 1
expire | kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount | Value | 1
"""

FORWARDED = """
create | kafka.server:type=forwarding-metrics,BrokerId=1 | request-total | 1
create | kafka.server:type=forwarding-metrics,BrokerId=1 | response-total | 1
create | kafka.server:type=ForwardingManager | QueueTimeMs.p99 | +
create | kafka.server:type=ForwardingManager | QueueTimeMs.p999 | +
create | kafka.server:type=ForwardingManager | RemoteTimeMs.p99 | +
create | kafka.server:type=ForwardingManager | RemoteTimeMs.p999 | +
"""

STANDING: dict[str, str] = {
    "describes the node or the cluster, and does not change while the node runs": """
kafka.server:type=KafkaServer,name=ClusterId | Value
kafka.server:type=app-info | version, start-time-ms
kafka.server:type=app-info,id=1 | version, start-time-ms
kafka.server:type=MetadataLoader,name=CurrentMetadataVersion | Value
$CONTROLLER=IgnoredStaticVoters | Value
kafka.server:type=broker-metadata-metrics | ignored-static-voters
""",
    "the voters of a running cluster seldom change; other tests of the quorum change them": """
kafka.server:type=raft-metrics | number-of-voters, number-of-observers, uncommitted-voter-change
kafka.server:type=raft-metrics | current-vote-directory-id
""",
    "the kernel counts, and does not count bytes that stay in memory": """
kafka.server:type=KafkaServer,name=linux-disk-read-bytes | Value
kafka.server:type=KafkaServer,name=linux-disk-write-bytes | Value
""",
    "an average of the last minute or of a window, so the time that a machine needs for the test changes it": """
kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent | Value
kafka.network:type=Processor,name=IdlePercent,networkProcessor=0 | Value
kafka.server:type=socket-server-metrics,$LISTENER | io-wait-ratio
kafka.server:type=group-coordinator-metrics | thread-idle-ratio-avg
kafka.server:type=raft-metrics | poll-idle-ratio-avg
kafka.server:type=raft-channel-metrics | connection-close-rate
""",
    "this state ends before another request can read the metrics": """
kafka.network:type=RequestChannel,name=RequestQueueSize | Value
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsDead | Value
kafka.server:type=group-coordinator-metrics,state=Dead | consumer-group-count
kafka.server:type=group-coordinator-metrics,state=Assigning | consumer-group-count
kafka.server:type=group-coordinator-metrics,state=loading | num-partitions
kafka.server:type=ForwardingManager | QueueLength
kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnknownDestinationQueueSize | Value
kafka.log:type=LogCleanerManager,name=max-dirty-percent | Value
""",
    "changes only after minutes or hours": """
kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount | Value
kafka.server:type=group-coordinator-metrics | offset-expiration-rate, offset-expiration-count
kafka.server:type=broker-metadata-metrics | last-applied-record-lag-ms
kafka.log:type=LogCleaner,name=max-buffer-utilization-percent | Value
kafka.log:type=LogCleaner,name=max-clean-time-secs | Value
kafka.log:type=LogCleaner,name=max-compaction-delay-secs | Value
""",
    "0 unless the broker or the controller has a fault that no test can cause from outside": """
kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec | Count
kafka.server:type=ReplicaManager,name=FailedIsrUpdatesPerSec | Count
kafka.server:type=ReplicaFetcherManager,name=FailedPartitionsCount,clientId=Replica | Value
kafka.server:type=ReplicaFetcherManager,name=DeadThreadCount,clientId=Replica | Value
kafka.log:type=LogCleaner,name=DeadThreadCount | Value
kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count,logDirectory=/tmp/a | Value
kafka.log:type=LogCleanerManager,name=uncleanable-bytes,logDirectory=/tmp/a | Value
$CONTROLLER=MetadataErrorCount | Value
$CONTROLLER=EventQueueOperationsTimedOutCount | Value
kafka.server:type=broker-metadata-metrics | metadata-apply-error-count
kafka.server:type=group-coordinator-metrics,state=failed | num-partitions
""",
}
"""Reason -> the beans that only have to exist."""

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
    "socket-server-metrics cipher, protocol": (
        "connections are counted for each client software, not for each cipher"
    ),
    "raft-channel-metrics successful-authentication-, failed-authentication-, successful-reauthentication-, "
    "failed-reauthentication-, reauthentication-latency-, request-size-, select-, io-": (
        "for a connection that a node opens, the node at the other end counts the logins and the sizes, in its "
        "socket-server-metrics"
    ),
    "app-info commit-id": ("version has the release, and there is no commit id"),
    "group-coordinator-metrics event-queue-size, event-queue-time-ms": (
        "there is no queue: a request reaches its group immediately"
    ),
    "group-coordinator-metrics share-group-count, streams-group-count, share-group-rebalance-rate, "
    "streams-group-rebalance-rate": ("there are no share groups and no streams groups"),
    "TransactionMarkerChannelManager LogAppendRetryQueueSize": (
        "there is no such queue: the coordinator keeps a record that could not be appended with its "
        "transaction, and appends it later"
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
    "DelayedProduceMetrics topic, partition": ("the bean counts all partitions together"),
    "Request exempt-request-time": ("the time of requests between brokers is not measured"),
    "AlterLogDirsReplication": (
        "this is a replication quota. Moves between directories have only the limit "
        "replica.alter.log.dirs.io.max.bytes.per.second"
    ),
    "client-metrics, plugins": ("client telemetry (KIP-714) and pluggable Java classes do not exist"),
    "java.lang": ("there is no Java virtual machine; see kcli:type=Process"),
}
"""Names of Kafka without a bean here -> the reason."""


@dataclass(frozen=True, slots=True)
class Row:
    """A bean that an action moves. `node` is empty in MOVED."""

    action: str
    node: str
    name: str
    attribute: str
    change: str

    def of(self, node_id: int) -> Row:
        """The row of a node, whose id takes the place of `$ID`."""
        name, change = (each.replace("$ID", str(node_id)) for each in (self.name, self.change))
        return replace(self, name=name, change=change)

    def fault(self, before: Beans, after: Beans) -> str:
        """What is wrong with the values before and after the action, or an empty text."""
        if self.attribute not in after.get(self.name, {}):
            return f"{self.name} has no {self.attribute}"
        old, new = _number(before.get(self.name, {}).get(self.attribute, 0)), after[self.name][self.attribute]
        return (
            ""
            if self._fits(old, new)
            else f"{self.name} {self.attribute}: {old} -> {new}, expected {self.change}"
        )

    def _fits(self, old: Any, new: Any) -> bool:
        match self.change.split():
            case ["=", value]:
                return old != new and str(new) == value
            case ["+"]:
                return bool(new > old)
            case ["-"]:
                return bool(new < old)
            case _:
                return bool(new - old == int(self.change))


def _number(value: Any) -> Any:
    return 0 if isinstance(value, float) and math.isnan(value) else value


def beans_of(node: Any) -> Beans:
    """The attributes of each bean of a node, by its object name."""
    return {
        each.object_name: dict(each.attributes)
        for several in broker_beans(node.metrics_endpoint._sources)
        if several is not None
        for each in single_beans(several)
    }


def moved() -> list[Row]:
    """The rows of MOVED."""
    return [Row(action, "", *rest) for action, *rest in map(_cells, _lines(MOVED))]


def at_a_login() -> list[Row]:
    """The rows of AT_A_LOGIN."""
    return [Row(action, "", *rest) for action, *rest in map(_cells, _lines(AT_A_LOGIN))]


def forwarded() -> list[Row]:
    """The rows of FORWARDED: on a broker that forwards a request to the controller."""
    return [Row(action, "", *rest) for action, *rest in map(_cells, _lines(FORWARDED))]


def in_a_cluster() -> list[Row]:
    """The rows of IN_A_CLUSTER."""
    return [Row(*_cells(line)) for line in _lines(IN_A_CLUSTER)]


def standing() -> list[tuple[str, tuple[str, ...]]]:
    """The rows of STANDING: object name, attributes."""
    rows = [_cells(line) for table in STANDING.values() for line in _lines(table)]
    return [(name, tuple(attributes.split(", "))) for name, attributes in rows]


def reasons() -> dict[str, str]:
    """The reason of each row of STANDING, as in docs/metrics.md."""
    return {line.replace(" | ", " "): reason for reason, table in STANDING.items() for line in _lines(table)}


def is_present(names: str, found: Beans) -> bool:
    """Whether a bean has one of the names of a row of ABSENT: `type name, name …`, or only types."""
    first, *others = names.split(", ")
    kind, _, name = first.partition(" ")
    words = {
        word
        for each, attributes in found.items()
        if not name or _type(each) == kind
        for word in _words(each, attributes)
    }
    return any(word.startswith(name or kind) or word in others for word in words)


def _words(name: str, attributes: dict[str, Any]) -> set[str]:
    return {*re.split("[:=,]", name), *attributes}


def _type(name: str) -> str:
    return re.split("[:=,]", name)[2]


def family(name: str) -> str:
    """The object name without the values of tags that differ from cluster to cluster. All connections that a node opens
    have the same attributes, from the same code, so they are one family."""
    name = OUTGOING.sub("kafka.server:type=raft-channel-metrics", name)
    return re.sub(
        "(topic|partition|request|version|error|client-id|clientId|broker|ip|id|logDirectory|listener|clientSoftwareName|clientSoftwareVersion)=[^,]*",
        r"\1",
        name,
    )


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(" | ")]


def _lines(table: str) -> list[str]:
    for short, text in SHORT.items():
        table = table.replace(short, text)
    return table.strip().splitlines()

#!/bin/sh
# Runs the command that replaces a main class of Kafka. Options for the JVM (-loggc) have no effect.
daemon=
name=kafka
while [ $# -gt 0 ]; do
    case "$1" in
        -daemon) daemon=yes ;;
        -name) name=${2-}; [ $# -gt 1 ] && shift ;;
        -loggc) ;;
        *) break ;;
    esac
    shift
done
if [ $# -eq 0 ]; then
    echo "USAGE: $0 [-daemon] [-name servicename] [-loggc] classname [opts]"
    exit 1
fi
case "${1##*.}" in
    AclCommand) command=acls ;;
    BrokerApiVersionsCommand) command=broker-api-versions ;;
    ClientMetricsCommand) command=client-metrics ;;
    ClusterTool) command=cluster ;;
    ConfigCommand) command=configs ;;
    ConnectDistributed) command=connect-distributed ;;
    ConnectPluginPath) command=connect-plugin-path ;;
    ConnectStandalone) command=connect-standalone ;;
    ConsoleConsumer) command=console-consumer ;;
    ConsoleProducer) command=console-producer ;;
    ConsumerGroupCommand) command=consumer-groups ;;
    ConsumerPerformance) command=consumer-perf-test ;;
    DelegationTokenCommand) command=delegation-tokens ;;
    DeleteRecordsCommand) command=delete-records ;;
    DumpLogSegments) command=dump-log ;;
    EndToEndLatency) command=e2e-latency ;;
    FeatureCommand) command=features ;;
    GetOffsetShell) command=get-offsets ;;
    GroupsCommand) command=groups ;;
    JmxTool) command=jmx ;;
    Kafka) command=server-start ;;
    LeaderElectionCommand) command=leader-election ;;
    LogDirsCommand) command=log-dirs ;;
    MetadataQuorumCommand) command=metadata-quorum ;;
    MetadataShell) command=metadata-shell ;;
    MirrorMaker) command=mirror-maker ;;
    ProducerPerformance) command=producer-perf-test ;;
    ReassignPartitionsCommand) command=reassign-partitions ;;
    ReplicaVerificationTool) command=replica-verification ;;
    SchemaRegistryMain) command=schema-registry ;;
    StorageTool) command=storage ;;
    StreamsResetter) command=streams-application-reset ;;
    TopicCommand) command=topics ;;
    TransactionsCommand) command=transactions ;;
    VerifiableConsumer) command=verifiable-consumer ;;
    VerifiableProducer) command=verifiable-producer ;;
    *)
        echo "$0: $1 is a Java class that no kcli command replaces; see kcli --help" >&2
        exit 1
        ;;
esac
shift
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH"
export PATH KCLI_SCRIPT=kafka-run-class.sh
[ -n "$daemon" ] || exec kcli "$command" "$@"
log_dir=${LOG_DIR:-logs}
mkdir -p "$log_dir" || exit 1
export LOG_DIR="$log_dir"
nohup kcli "$command" "$@" > "$log_dir/$name.out" 2>&1 < /dev/null &

"""The table of tools: the commands and their modules.

A tool is a module below `kcli.cli.tools` with a `command` (see `options.Command`). The module is imported when the tool
is called. A tool of several files is a package, and `Tool.place` names the module of this package that has `command`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from kcli.cli.syntax.options import Command


@dataclass(frozen=True, slots=True)
class Tool:
    """One row of the table: the command, its module, the Kafka script that it replaces, and its summary."""

    name: str
    script: str
    summary: str
    panel: str
    place: str = ""
    """The module below `kcli.cli.tools`, if its name differs from the name of the command."""

    @property
    def module(self) -> str:
        """The module that holds the tool's `command`."""
        return f"kcli.cli.tools.{self.place or self.name.replace('-', '_')}"

    def load(self) -> Command:
        """Imports the tool and returns its declaration."""
        command = importlib.import_module(self.module).command
        assert isinstance(command, Command), f"{self.module}.command is not a Command"
        return command


_TOPICS, _DATA, _GROUPS, _CONNECT = "Topics", "Records", "Groups", "Connect"
_SCHEMAS = "Schemas"
_CLUSTER, _SERVER = "Cluster", "Server and disk"

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "topics",
            "kafka-topics.sh",
            "Create, list, describe, alter and delete topics.",
            _TOPICS,
            place="topics.command",
        ),
        Tool(
            "configs",
            "kafka-configs.sh",
            "Show and change the configuration of topics, brokers, users and more.",
            _TOPICS,
            place="configs.command",
        ),
        Tool(
            "get-offsets",
            "kafka-get-offsets.sh",
            "Print the offsets of partitions at a point in time.",
            _TOPICS,
        ),
        Tool(
            "delete-records", "kafka-delete-records.sh", "Delete the records before given offsets.", _TOPICS
        ),
        Tool(
            "console-producer",
            "kafka-console-producer.sh",
            "Send each line of input as a record.",
            _DATA,
            place="console.producer",
        ),
        Tool(
            "console-consumer",
            "kafka-console-consumer.sh",
            "Print records as they arrive.",
            _DATA,
            place="console.consumer",
        ),
        Tool(
            "producer-perf-test",
            "kafka-producer-perf-test.sh",
            "Measure how fast records can be sent.",
            _DATA,
            place="perf_test.producer",
        ),
        Tool(
            "consumer-perf-test",
            "kafka-consumer-perf-test.sh",
            "Measure how fast records can be read.",
            _DATA,
            place="perf_test.consumer",
        ),
        Tool(
            "verifiable-producer",
            "kafka-verifiable-producer.sh",
            "Send numbers and print the result of each.",
            _DATA,
            place="verifiable.producer",
        ),
        Tool(
            "verifiable-consumer",
            "kafka-verifiable-consumer.sh",
            "Read as a member of a group and print the events of the member.",
            _DATA,
            place="verifiable.consumer",
        ),
        Tool(
            "e2e-latency",
            "kafka-e2e-latency.sh",
            "Measure the time that a record takes from the producer to the consumer.",
            _DATA,
        ),
        Tool(
            "trace",
            "",
            "Show the headers of a record, and the time of each step.",
            _DATA,
            place="trace.command",
        ),
        Tool(
            "consumer-groups",
            "kafka-consumer-groups.sh",
            "List, describe and delete consumer groups, and reset their offsets.",
            _GROUPS,
            place="consumer_groups.command",
        ),
        Tool(
            "streams-application-reset",
            "kafka-streams-application-reset.sh",
            "Make a Kafka Streams application process its input again.",
            _GROUPS,
        ),
        Tool(
            "transactions",
            "kafka-transactions.sh",
            "List and describe transactions; find and abort hanging transactions.",
            _GROUPS,
            place="transactions.command",
        ),
        Tool("groups", "kafka-groups.sh", "List the groups of every type.", _GROUPS),
        Tool(
            "cluster",
            "kafka-cluster.sh",
            "Show the cluster's id and endpoints; unregister brokers; run a cluster on this machine.",
            _CLUSTER,
            place="cluster.command",
        ),
        Tool(
            "broker-api-versions",
            "kafka-broker-api-versions.sh",
            "Show the API versions that each broker supports.",
            _CLUSTER,
        ),
        Tool(
            "log-dirs",
            "kafka-log-dirs.sh",
            "Show the log directories of brokers and the partitions in them.",
            _CLUSTER,
        ),
        Tool(
            "reassign-partitions",
            "kafka-reassign-partitions.sh",
            "Move partitions between brokers and between log directories.",
            _CLUSTER,
            place="reassign_partitions.command",
        ),
        Tool("features", "kafka-features.sh", "Show and change the cluster's feature levels.", _CLUSTER),
        Tool(
            "metadata-quorum",
            "kafka-metadata-quorum.sh",
            "Show the metadata quorum; add and remove controllers.",
            _CLUSTER,
        ),
        Tool(
            "leader-election",
            "kafka-leader-election.sh",
            "Elect the preferred replica as the leader of each partition.",
            _CLUSTER,
        ),
        Tool(
            "replica-verification",
            "kafka-replica-verification.sh",
            "Compare the replicas of partitions.",
            _CLUSTER,
        ),
        Tool(
            "client-metrics",
            "kafka-client-metrics.sh",
            "Show and change subscriptions to the metrics of clients.",
            _CLUSTER,
        ),
        Tool(
            "acls",
            "kafka-acls.sh",
            "Add, remove, list and check ACLs.",
            _CLUSTER,
            place="acls.command",
        ),
        Tool(
            "delegation-tokens",
            "kafka-delegation-tokens.sh",
            "Create, renew, expire and describe delegation tokens.",
            _CLUSTER,
        ),
        Tool("jmx", "kafka-jmx.sh", "Print the metrics of a broker, once or repeatedly.", _CLUSTER),
        Tool(
            "doctor",
            "",
            "Find out why a client cannot use a cluster, and check a whole cluster.",
            _CLUSTER,
            place="doctor.command",
        ),
        Tool(
            "top",
            "",
            "Watch throughput, lag, partitions and slow requests live.",
            _CLUSTER,
            place="top.command",
        ),
        Tool(
            "console",
            "",
            "Serve a web console for one or more clusters.",
            _CLUSTER,
            place="console_ui",
        ),
        Tool(
            "connect-standalone",
            "connect-standalone.sh",
            "Run connectors in one worker of Kafka Connect.",
            _CONNECT,
            place="connect.standalone",
        ),
        Tool(
            "connect-distributed",
            "connect-distributed.sh",
            "Run a worker of Kafka Connect that shares connectors with others.",
            _CONNECT,
            place="connect.distributed",
        ),
        Tool(
            "connect-plugin-path",
            "connect-plugin-path.sh",
            "List the plugins in the directories of plugin.path.",
            _CONNECT,
            place="connect.plugin_path",
        ),
        Tool(
            "connect",
            "",
            "Show and change the connectors of Kafka Connect.",
            _CONNECT,
            place="connect.command",
        ),
        Tool(
            "mirror-maker",
            "connect-mirror-maker.sh",
            "Copy topics and groups between clusters, as MirrorMaker 2 does.",
            _CONNECT,
        ),
        Tool(
            "schemas",
            "",
            "Show, check and change the schemas of a registry.",
            _SCHEMAS,
            place="schemas.command",
        ),
        Tool("schema-registry", "", "Run a schema registry with Confluent's REST API.", _SCHEMAS),
        Tool("server-start", "kafka-server-start.sh", "Start a broker.", _SERVER),
        Tool("server-stop", "kafka-server-stop.sh", "Stop the brokers on this machine.", _SERVER),
        Tool(
            "storage",
            "kafka-storage.sh",
            "Format log directories and show their state.",
            _SERVER,
            place="storage.command",
        ),
        Tool(
            "dump-log",
            "kafka-dump-log.sh",
            "Print the contents of log segments and their indexes.",
            _SERVER,
            place="dump_log.command",
        ),
        Tool(
            "metadata-shell",
            "kafka-metadata-shell.sh",
            "Browse the metadata in a log file or a snapshot with a shell.",
            _SERVER,
            place="metadata_shell.command",
        ),
        Tool("spark-submit", "", "Run a job of kcli on Spark.", _DATA),
        Tool("profile", "", "List profiles, and choose the profile of all later commands.", _CLUSTER),
    )
}

"""Kafka's script names, as small shell scripts: `python -m kcli.cli.shims [DIRECTORY]`.

A shim runs the first kcli that it finds: in the virtual environment of its checkout (../.venv/bin), in its own
directory, or on the PATH. The shim kafka-run-class.sh runs the command that replaces the given class.
"""

from __future__ import annotations

import os
import sys

from kcli.cli.script_form import SCRIPT_VARIABLE
from kcli.cli.syntax.registry import TOOLS

EXECUTABLE = 0o755
# The simple names of the classes that Kafka's scripts run. Their packages differ between versions of Kafka, but the
# simple names do not.
MAIN_CLASSES = {
    "AclCommand": "acls",
    "BrokerApiVersionsCommand": "broker-api-versions",
    "ClientMetricsCommand": "client-metrics",
    "ClusterTool": "cluster",
    "ConfigCommand": "configs",
    "ConnectDistributed": "connect-distributed",
    "ConnectPluginPath": "connect-plugin-path",
    "ConnectStandalone": "connect-standalone",
    "ConsoleConsumer": "console-consumer",
    "ConsoleProducer": "console-producer",
    "ConsumerGroupCommand": "consumer-groups",
    "ConsumerPerformance": "consumer-perf-test",
    "DelegationTokenCommand": "delegation-tokens",
    "DeleteRecordsCommand": "delete-records",
    "DumpLogSegments": "dump-log",
    "EndToEndLatency": "e2e-latency",
    "FeatureCommand": "features",
    "GetOffsetShell": "get-offsets",
    "GroupsCommand": "groups",
    "JmxTool": "jmx",
    "Kafka": "server-start",
    "LeaderElectionCommand": "leader-election",
    "LogDirsCommand": "log-dirs",
    "MetadataQuorumCommand": "metadata-quorum",
    "MetadataShell": "metadata-shell",
    "MirrorMaker": "mirror-maker",
    "ProducerPerformance": "producer-perf-test",
    "ReassignPartitionsCommand": "reassign-partitions",
    "ReplicaVerificationTool": "replica-verification",
    "SchemaRegistryMain": "schema-registry",
    "StorageTool": "storage",
    "StreamsResetter": "streams-application-reset",
    "TopicCommand": "topics",
    "TransactionsCommand": "transactions",
    "VerifiableConsumer": "verifiable-consumer",
    "VerifiableProducer": "verifiable-producer",
}
CONFLUENT_SCRIPTS = {"schema-registry-start": "schema-registry"}
"""Scripts of Confluent Platform, and the commands that replace them."""
RUN_CLASS = "kafka-run-class.sh"
# `exec` is a special built-in of the shell. So it uses the PATH that is assigned in the same command to find kcli.
_HERE = '$(dirname "$0")'
_PATH = f'PATH="{_HERE}/../.venv/bin:{_HERE}:$PATH"'


def shims() -> dict[str, str]:
    """Returns scripts by file name: one for each tool that replaces a script, and kafka-run-class.sh."""
    scripts = {tool.script: tool.name for tool in TOOLS.values() if tool.script} | CONFLUENT_SCRIPTS
    return {script: _shim(name, script) for script, name in scripts.items()} | {RUN_CLASS: _run_class()}


def _shim(name: str, script: str) -> str:
    return f'#!/bin/sh\nexport {SCRIPT_VARIABLE}={script}\n{_PATH} exec kcli {name} "$@"\n'


def _run_class() -> str:
    cases = "\n".join(f"    {name}) command={command} ;;" for name, command in MAIN_CLASSES.items())
    return f"""#!/bin/sh
# Runs the command that replaces a main class of Kafka. Options for the JVM (-loggc) have no effect.
daemon=
name=kafka
while [ $# -gt 0 ]; do
    case "$1" in
        -daemon) daemon=yes ;;
        -name) name=${{2-}}; [ $# -gt 1 ] && shift ;;
        -loggc) ;;
        *) break ;;
    esac
    shift
done
if [ $# -eq 0 ]; then
    echo "USAGE: $0 [-daemon] [-name servicename] [-loggc] classname [opts]"
    exit 1
fi
case "${{1##*.}}" in
{cases}
    *)
        echo "$0: $1 is a Java class that no kcli command replaces; see kcli --help" >&2
        exit 1
        ;;
esac
shift
{_PATH}
export PATH {SCRIPT_VARIABLE}={RUN_CLASS}
[ -n "$daemon" ] || exec kcli "$command" "$@"
log_dir=${{LOG_DIR:-logs}}
mkdir -p "$log_dir" || exit 1
export LOG_DIR="$log_dir"
nohup kcli "$command" "$@" > "$log_dir/$name.out" 2>&1 < /dev/null &
"""


def main() -> None:
    """Writes every shim into the directory of the first argument (default: bin/ of the checkout)."""
    target = sys.argv[1] if len(sys.argv) > 1 else "bin"
    os.makedirs(target, exist_ok=True)
    for name, text in shims().items():
        path = os.path.join(target, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, EXECUTABLE)


if __name__ == "__main__":
    main()

"""connect-distributed: runs one of several workers that share connectors."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommonOptions, UsageError, flag
from kcli.cli.tools.connect.worker import start
from kcli.command.examples import Example

USAGE = "USAGE: kcli connect-distributed [-daemon] connect-distributed.properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedOptions(CommonOptions):
    daemon: bool = flag(
        "Run the worker in the background. It writes its log to connectDistributed.out in the directory $LOG_DIR "
        "(default: logs)."
    )


def run(options: DistributedOptions, output: Output) -> int:
    if not options.arguments:
        raise UsageError(USAGE)
    return start("distributed", "connectDistributed", options.arguments[:1], output, is_daemon=options.daemon)


command = Command(
    name="connect-distributed",
    description="This tool runs a worker of Kafka Connect. Workers with the same group.id share the connectors. "
    "Connectors are created and changed with the REST API of any worker, which listens on port 8083. The workers keep "
    "configurations, offsets and states in topics.",
    options=DistributedOptions,
    run=run,
    bare=lambda: print(USAGE),
    examples=(
        Example(
            "Start a worker:",
            "kcli connect-distributed config/connect-distributed.properties",
            exit_code=130,
            is_endless=True,
        ),
    ),
    exit_status=(
        (0, "-daemon started the worker in the background."),
        (1, "There are no arguments, or the worker lost its group."),
        (2, "The configuration of the worker is invalid, or no broker answers."),
        (3, "The worker could not start."),
        (130, "Ctrl-C stopped the worker."),
        (143, "SIGTERM stopped the worker."),
    ),
)

"""connect-standalone: runs connectors in one worker."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommonOptions, UsageError, flag
from kcli.cli.tools.connect.worker import start
from kcli.command.examples import Example

USAGE = (
    "USAGE: kcli connect-standalone [-daemon] connect-standalone.properties "
    "[connector1.properties connector2.json ...]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneOptions(CommonOptions):
    daemon: bool = flag(
        "Run the worker in the background. It writes its log to connectStandalone.out in the directory $LOG_DIR "
        "(default: logs)."
    )


def run(options: StandaloneOptions, output: Output) -> int:
    if not options.arguments:
        raise UsageError(USAGE)
    return start("standalone", "connectStandalone", options.arguments, output, is_daemon=options.daemon)


command = Command(
    name="connect-standalone",
    description="This tool runs connectors in a single worker of Kafka Connect. Each file after the worker's "
    "properties is the configuration of a connector, as properties or as JSON. The worker keeps the offsets of its "
    "source connectors in a file.",
    options=StandaloneOptions,
    run=run,
    bare=lambda: print(USAGE),
    examples=(
        Example(
            "Copy the lines of a file to a topic, and the topic to another file:",
            "kcli connect-standalone config/connect-standalone.properties \\\n"
            "  config/connect-file-source.properties config/connect-file-sink.properties",
            exit_code=130,
            is_endless=True,
        ),
    ),
    exit_status=(
        (0, "-daemon started the worker in the background."),
        (1, "There are no arguments, or one of them is --help."),
        (2, "The configuration of the worker is invalid, or no broker answers."),
        (3, "The worker could not start, or a connector could not be created."),
        (130, "Ctrl-C stopped the worker."),
        (143, "SIGTERM stopped the worker."),
    ),
)

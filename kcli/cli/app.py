"""The Typer application: one table of tools, each loaded only when it is called.

A tool is a module of `kcli.cli.tools` with a `command` (see `options.Command`). Typer finds the command, lists the
commands and speaks to shells; the words after the command's name go untouched to the parser of its Kafka family.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand

from kcli.cli.options import Command


@dataclass(frozen=True, slots=True)
class Tool:
    """One row of the table: the command, its module, the Kafka script it stands for, and what it does."""

    name: str
    script: str
    summary: str
    panel: str

    @property
    def is_built(self) -> bool:
        """Whether this installation has the tool."""
        return importlib.util.find_spec(self.module) is not None

    @property
    def module(self) -> str:
        """The module that holds the tool's `command`."""
        return f"kcli.cli.tools.{self.name.replace('-', '_')}"

    def load(self) -> Command:
        """Import the tool."""
        command = importlib.import_module(self.module).command
        assert isinstance(command, Command), f"{self.module}.command is not a Command"
        return command


_TOPICS, _DATA, _GROUPS, _CLUSTER, _SERVER = "Topics", "Records", "Groups", "Cluster", "Server and disk"

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("topics", "kafka-topics.sh", "Create, list, describe, alter and delete topics.", _TOPICS),
        Tool(
            "configs",
            "kafka-configs.sh",
            "Show and change the configuration of topics, brokers, users and more.",
            _TOPICS,
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
        Tool("console-producer", "kafka-console-producer.sh", "Send each line of input as a record.", _DATA),
        Tool("console-consumer", "kafka-console-consumer.sh", "Print records as they arrive.", _DATA),
        Tool(
            "producer-perf-test",
            "kafka-producer-perf-test.sh",
            "Measure how fast records can be sent.",
            _DATA,
        ),
        Tool(
            "consumer-perf-test",
            "kafka-consumer-perf-test.sh",
            "Measure how fast records can be read.",
            _DATA,
        ),
        Tool(
            "consumer-groups",
            "kafka-consumer-groups.sh",
            "List, describe and delete consumer groups, and reset their offsets.",
            _GROUPS,
        ),
        Tool(
            "cluster",
            "kafka-cluster.sh",
            "Show the cluster's id and endpoints; unregister brokers.",
            _CLUSTER,
        ),
        Tool(
            "broker-api-versions",
            "kafka-broker-api-versions.sh",
            "Show which API versions each broker speaks.",
            _CLUSTER,
        ),
        Tool(
            "log-dirs", "kafka-log-dirs.sh", "Show what each broker holds in its log directories.", _CLUSTER
        ),
        Tool("server-start", "kafka-server-start.sh", "Start a broker.", _SERVER),
        Tool("server-stop", "kafka-server-stop.sh", "Stop the brokers on this machine.", _SERVER),
        Tool("storage", "kafka-storage.sh", "Format log directories and tell what they hold.", _SERVER),
        Tool(
            "dump-log", "kafka-dump-log.sh", "Print what is inside log segments and their indexes.", _SERVER
        ),
        Tool("spark-submit", "", "Run a job of kcli on Spark.", _DATA),
    )
}


class ToolCommand(TyperCommand):
    """A Typer command that leaves its words to the tool's own parser."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list(args)
        ctx.args = words
        return words

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        from kcli.cli.complete import candidates

        assert self.name is not None
        return list(candidates(TOOLS[self.name].load(), ctx.args, incomplete))


def _call(tool: Tool) -> Callable[[typer.Context], None]:
    def call(ctx: typer.Context) -> None:
        from kcli.cli.main import run_tool

        raise typer.Exit(run_tool(tool, ctx.args))

    return call


def _version(wanted: bool) -> None:
    if wanted:
        from kcli import KAFKA_VERSION

        typer.echo(KAFKA_VERSION)
        raise typer.Exit


app = typer.Typer(
    name="kcli",
    help="Apache Kafka's broker and command-line tools, without the JVM.",
    epilog="Each command takes the options of the Kafka script it stands for, and --output, --timeout.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    pass


for _tool in [tool for tool in TOOLS.values() if tool.is_built]:
    app.command(
        _tool.name,
        cls=ToolCommand,
        help=_tool.summary,
        add_help_option=False,
        rich_help_panel=_tool.panel,
    )(_call(_tool))

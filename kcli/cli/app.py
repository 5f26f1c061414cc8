"""The Typer application: lists the tools, completes command lines, and passes all arguments to the commands unchanged.

The arguments after a command's name are parsed by one of Kafka's two syntaxes (see `syntax.options.Family`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import typer
from typer.core import TyperCommand

from kcli.cli.running import run_tool
from kcli.cli.syntax.registry import TOOLS, Tool


class ToolCommand(TyperCommand):
    """A Typer command that passes its arguments unparsed to the tool."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list(args)
        ctx.args = words
        return words

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        from kcli.cli.complete import candidates
        from kcli.cli.shell_completion import shown

        assert self.name is not None
        completions = candidates(TOOLS[self.name].load(), ctx.args, incomplete)
        return [replace(candidate, value=shown(candidate.value)) for candidate in completions]


class HelpCommand(ToolCommand):
    """The Typer command `kcli help`, whose arguments are the names of commands."""

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        from kcli.cli.complete import help_candidates

        return list(help_candidates(ctx.args, incomplete))


def _call(tool: Tool) -> Callable[[typer.Context], None]:
    def call(ctx: typer.Context) -> None:
        raise typer.Exit(run_tool(tool, ctx.args))

    return call


def _version(wanted: bool) -> None:
    if wanted:
        from kcli import KAFKA_VERSION, VERSION

        typer.echo(f"kcli {VERSION} (Apache Kafka {KAFKA_VERSION})")
        raise typer.Exit


app = typer.Typer(
    name="kcli",
    help="Apache Kafka's broker and command-line tools, without the JVM.",
    epilog="Each command has the options of the Kafka script that it replaces, and --output and --profile.",
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


for _tool in TOOLS.values():
    app.command(
        _tool.name,
        cls=ToolCommand,
        help=_tool.summary,
        add_help_option=False,
        rich_help_panel=_tool.panel,
    )(_call(_tool))


@app.command("help", cls=HelpCommand, rich_help_panel="More")
def _help() -> None:
    """Show the commands, or the options of a command: kcli help COMMAND."""


@app.command("version", rich_help_panel="More")
def _show_version() -> None:
    """Print the version."""

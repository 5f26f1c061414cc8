"""mirror-maker: runs MirrorMaker 2 in its dedicated mode."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.output import Output, warn
from kcli.cli.script_form import is_kafkas_script
from kcli.cli.syntax import argparse4j
from kcli.cli.syntax.options import Command, CommandError, CommonOptions, Family, ParseError, flag, option
from kcli.cli.tools import background
from kcli.cli.tools.background import Program
from kcli.command.examples import Example

REFUSED = 255
"""The exit code of Java's program after an error in the command line, and after its help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions(CommonOptions):
    clusters: tuple[str, ...] = option(
        "The aliases of the target clusters of this process (default: all clusters). Name the clusters that are near.",
        metavar="CLUSTER",
        repeatable=True,
        words=True,
    )
    daemon: bool = flag(
        "Run in the background. MirrorMaker writes its log to mirrorMaker.out in the directory $LOG_DIR (default: "
        "logs).",
        short="daemon",
    )


def run(options: MirrorOptions, output: Output) -> int:
    [file] = options.arguments
    _check_readable(file)

    def serve() -> int:
        from kcli.mirror.program import run

        return run(file, options.clusters)

    program = Program("kcli.mirror.program", "mirrorMaker", "MirrorMaker")
    return background.start(program, [file, *options.clusters], serve, output, is_daemon=options.daemon)


def _check_readable(file: str) -> None:
    try:
        open(file, "rb").close()
    except OSError as error:
        if is_kafkas_script():
            _refuse(ParseError(f"argument  config:  Insufficient permissions to\nread file: '{file}'"))
            raise CommandError(exit_code=REFUSED) from None
        raise CommandError(f"Cannot read {file}: {error.strerror}", exit_code=REFUSED) from None


def _refuse(error: ParseError) -> int:
    warn(argparse4j.usage(command))
    warn(f"{command.prog}: error: {error}")
    return REFUSED


command = Command(
    name="mirror-maker",
    description="MirrorMaker 2.0 driver",
    family=Family.ARGPARSE4J,
    prog="connect-mirror-maker",
    help_exit=REFUSED,
    operand="mm2.properties",
    parse_failed=_refuse,
    options=MirrorOptions,
    run=run,
    examples=(
        Example(
            "Copy from every cluster to every other cluster for which the file says so:",
            "kcli mirror-maker config/connect-mirror-maker.properties",
            exit_code=130,
            is_endless=True,
        ),
        Example(
            "Copy only to the cluster B, because this process is near B:",
            "kcli mirror-maker config/connect-mirror-maker.properties --clusters B",
            exit_code=130,
            is_endless=True,
        ),
    ),
    exit_status=(
        (0, "-daemon started MirrorMaker in the background."),
        (1, "A worker has failed."),
        (2, "The configuration is invalid, no flow is enabled, or a target cluster does not answer."),
        (3, "The endpoint of the metrics could not start."),
        (130, "Ctrl-C stopped MirrorMaker."),
        (143, "SIGTERM stopped MirrorMaker."),
        (
            255,
            "The file cannot be read. With the name of Kafka's script: the command line is wrong, or --help.",
        ),
    ),
)

"""What the built-in jobs share on their command line: parsing, the configuration file, topics, modes.

Precedence is flag, then configuration file, then default. A file says `bootstrap.servers=…` for every job, or
`export.format=…` for one; options are spelt with dots for dashes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from kcli.config.properties import load
from kcli.errors import KcliError
from kcli.spark.submit import JOBS

MODES = ("batch", "available-now", "continuous")
ALIASES = {"bootstrap.servers": "bootstrap.server"}
"""Kafka's own spelling in files, and its spelling on command lines."""


class JobError(KcliError):
    """The job cannot be done as asked: one line for the user."""


class JobParser(argparse.ArgumentParser):
    """Wrong words end with exit code 1, as in every kcli command, and without abbreviations of options."""

    def __init__(self, job: str, description: str) -> None:
        super().__init__(
            prog=f"kcli spark-submit [SPARK OPTIONS] {job}", description=description, allow_abbrev=False
        )
        self.job = job

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.job}: {message}\n")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse, with the options of `--config` before those of the command line."""
        path = _config_path(argv)
        words = self._words_of(path) if path is not None else []
        return self.parse_args([*words, *argv])

    def _words_of(self, path: str) -> list[str]:
        try:
            properties = load(path)
        except (OSError, ValueError) as error:
            self.error(f"--config {path}: {error}")
        known = {word: action for action in self._actions for word in action.option_strings}
        words: list[str] = []
        for key, value in properties.items():
            job, _, rest = key.partition(".")
            if job in JOBS and job != self.job:
                continue
            name = rest if job == self.job else key
            action = known.get("--" + ALIASES.get(name, name).replace(".", "-"))
            if action is None:
                print(f"{self.job}: {path}: {key} is not an option of this job", file=sys.stderr)
            elif action.nargs != 0:
                words += [action.option_strings[0], value]
            elif value.lower() == "true":
                words.append(action.option_strings[0])
        return words


def _config_path(argv: Sequence[str]) -> str | None:
    for nth, word in enumerate(argv):
        if word == "--config" and nth + 1 < len(argv):
            return argv[nth + 1]
        if word.startswith("--config="):
            return word.partition("=")[2]
    return None


def add_common(parser: JobParser) -> None:
    """The options of both jobs."""
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT", help="The cluster.")
    parser.add_argument(
        "--config", metavar="FILE", help="Defaults for these options (config/pipeline.properties)."
    )
    parser.add_argument("--dry-run", action="store_true", help="Show what would be done; starts no Spark.")
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="batch",
        help="batch: once; available-now: what is new since the last run, in micro-batches; continuous: until stopped.",
    )
    parser.add_argument("--checkpoint", metavar="DIR", help="Where a stream remembers how far it got.")
    parser.add_argument(
        "--trigger-interval",
        metavar="TEXT",
        default="1 second",
        help="Time between the micro-batches of --mode continuous (default: 1 second).",
    )


def check_common(parser: JobParser, options: argparse.Namespace) -> None:
    """What argparse cannot say."""
    if options.mode == "batch" and options.checkpoint is not None:
        parser.error("--checkpoint is for --mode available-now or continuous")
    if options.mode != "batch" and options.checkpoint is None:
        parser.error(f"--mode {options.mode} needs --checkpoint")


def pairs(words: Sequence[str], name: str) -> dict[str, str]:
    """`key=value` words as a dictionary."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise JobError(f"{name} {word}: KEY=VALUE is meant")
        found[key] = value
    return found


def names(text: str | None) -> list[str]:
    """A comma-separated list."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]

"""The file of `--config`: defaults for the options of jobs.

Precedence is command line, then file, then default. The file says `bootstrap.servers=…` for every job, or
`export.format=…` for one; options are spelt with dots for dashes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kcli.command.options import Argument, Option, UsageError
from kcli.config.properties import load
from kcli.spark.submit import JOBS

ALIASES = {"bootstrap.servers": "bootstrap.server"}
"""Kafka's own spelling in files, and its spelling on command lines."""

SHARED_KEYS = frozenset(
    {
        "trigger.interval",
        "compression.type",
        "max.offsets.per.trigger",
        "on.bad.record",
        "dead.letter.topic",
        "read.committed",
    }
)
"""Keys that may stand for all jobs in a file; a job that has no such option ignores them without a warning."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a file says to one job."""

    words: tuple[str, ...] = ()
    """Options as words of a command line."""
    unknown: tuple[str, ...] = ()
    """Keys that are not an option of the job."""


def load_defaults(path: str, job: str, known: list[Option], taken: Collection[str]) -> Defaults:
    """`taken` are the names of options that the file cannot set. UsageError if the file cannot be used."""
    try:
        properties = load(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"--config {path}: {error}") from None
    by_name = {option.name: option for option in known}
    words: list[str] = []
    unknown: list[str] = []
    for key, value in properties.items():
        owner, _, rest = key.partition(".")
        if owner in JOBS and owner != job:
            continue
        name = rest if owner == job else key
        option = by_name.get(ALIASES.get(name, name).replace(".", "-"))
        if option is None:
            if key not in SHARED_KEYS:
                unknown.append(key)
        elif option.name not in taken:
            words += _words(option, value, f"--config {path}: {key}")
    return Defaults(tuple(words), tuple(unknown))


def _words(option: Option, value: str, place: str) -> list[str]:
    if option.argument is not Argument.NONE:
        return [f"--{option.name}={value}"]
    if value.lower() not in ("true", "false"):
        raise UsageError(f"{place} is {value!r}; expected true or false")
    return [f"--{option.name}"] if value.lower() == "true" else []

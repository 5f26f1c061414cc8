"""Shell completion inside a command: sub-commands, options and fixed values come from the declarations.

`complete_names` completes the names of topics, groups and profiles.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from kcli.cli.complete_names import MAX_NAMES, names_for, positional_names
from kcli.cli.syntax.options import Argument, Command, Option, Subcommand, options_of
from kcli.cli.syntax.registry import TOOLS


@dataclass(frozen=True, slots=True)
class Candidate:
    """One completion, with the attributes that Typer's shell scripts read."""

    value: str
    help: str = ""
    type: str = "plain"

    def __getattr__(self, name: str) -> None:
        """Returns None for the optional attributes that shells look for."""
        if name.startswith("__"):
            raise AttributeError(name)


def candidates(command: Command, words: list[str], incomplete: str) -> list[Candidate]:
    """Returns the completions at the cursor.

    Each completion begins with `incomplete`, and is valid after the arguments `words`.
    """
    sub = _chosen(command, words)
    known = options_of(sub.options if sub else command.options)
    pending = _pending(words, known)
    if pending is not None:
        if pending.choices:
            return [Candidate(choice) for choice in pending.choices if choice.startswith(incomplete)]
        everything = _known(command, sub)
        names = names_for(command, pending, everything, words, incomplete)
        if names is not None:
            return [Candidate(name) for name in names]
        return [Candidate(path) for path in _paths(incomplete)]
    completions: list[Candidate] = []
    if command.subcommands and sub is None and not incomplete.startswith("-"):
        completions += [Candidate(subcommand.name, subcommand.help) for subcommand in command.subcommands]
    if sub is not None and words[-1] == sub.name:
        completions += [Candidate(name) for name in positional_names(command, sub, words)]
    completions += [Candidate(f"--{option.name}", option.help) for option in known if not option.deprecated]
    completions.append(Candidate("--help", "Print usage information."))
    return [candidate for candidate in completions if candidate.value.startswith(incomplete)]


def help_candidates(words: list[str], incomplete: str) -> list[Candidate]:
    """Returns the completions of `kcli help`: the commands, and then the sub-commands of a command."""
    completions: list[Candidate] = []
    if not words:
        completions = [Candidate(tool.name, tool.summary) for tool in TOOLS.values()]
    elif len(words) == 1 and words[0] in TOOLS:
        completions = [Candidate(sub.name, sub.help) for sub in TOOLS[words[0]].load().subcommands]
    return [candidate for candidate in completions if candidate.value.startswith(incomplete)]


def _paths(incomplete: str) -> list[str]:
    """Returns the files and directories that begin with the last part of a list. A directory ends with a slash."""
    before, comma, last = incomplete.rpartition(",")
    directory, slash, name = last.rpartition("/")
    parent = os.path.expanduser(directory + slash) or "."
    try:
        names = sorted(entry for entry in os.listdir(parent) if entry.startswith(name))
    except OSError:
        return []
    shown = [entry for entry in names if name.startswith(".") or not entry.startswith(".")][:MAX_NAMES]
    ends = ["/" if os.path.isdir(os.path.join(parent, entry)) else "" for entry in shown]
    return [f"{before}{comma}{directory}{slash}{entry}{end}" for entry, end in zip(shown, ends, strict=True)]


def _known(command: Command, sub: Subcommand | None) -> list[Option]:
    """Returns the options of the command and of its sub-command."""
    return options_of(command.options) + (options_of(sub.options) if sub else [])


def _chosen(command: Command, words: list[str]) -> Subcommand | None:
    return next((sub for sub in command.subcommands if sub.name in words), None)


def _pending(words: list[str], known: list[Option]) -> Option | None:
    """Returns the option whose argument is being typed, or None."""
    if not words or not words[-1].startswith("-"):
        return None
    name = words[-1].lstrip("-")
    for option in known:
        if option.argument is not Argument.NONE and name in (option.name, option.short or option.name):
            return option
    return None

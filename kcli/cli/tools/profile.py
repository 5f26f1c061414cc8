"""profile: lists the profiles of profiles.toml, and chooses the profile of all later commands."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommandError, CommonOptions, Family, Subcommand
from kcli.cli.syntax.profiles import chosen_file, chosen_name, load_profiles, profiles_path
from kcli.command.examples import Example


@dataclass(frozen=True, slots=True)
class Row:
    """A profile, and whether commands without --profile use it."""

    name: str
    is_used: bool


def list_profiles(_: CommonOptions, output: Output) -> None:
    try:
        names = load_profiles().names()
    except FileNotFoundError:
        names = []
    used = chosen_name()
    output.rows(
        [Row(name, name == used) for name in names], lambda row: f"{'*' if row.is_used else ' '} {row.name}"
    )


def use(options: CommonOptions, output: Output) -> None:
    """Stores the name of the profile in a file beside profiles.toml."""
    if len(options.arguments) != 1:
        raise CommandError("kcli profile use NAME: expected the name of one profile")
    (name,) = options.arguments
    try:
        load_profiles().profile(name)
    except FileNotFoundError:
        raise CommandError(f"{name}: there is no {profiles_path()}") from None
    path = chosen_file()
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{name}\n")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None
    output.say(f"Commands without --profile now use the profile {name}.")


def forget(_: CommonOptions, output: Output) -> None:
    """Deletes the file with the name of the profile."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(chosen_file())
    output.say("Commands without --profile now use no profile.")


command = Command(
    name="profile",
    description="This tool helps to list profiles and to choose the profile of all later commands.",
    family=Family.ARGPARSE4J,
    prog="kcli profile",
    help_exit=0,
    subcommands=(
        Subcommand(
            name="list", help="List the profiles of profiles.toml.", options=CommonOptions, run=list_profiles
        ),
        Subcommand(
            name="use",
            help="Use a profile in all later commands that have no option --profile: kcli profile use NAME.",
            options=CommonOptions,
            run=use,
            positional="NAME",
        ),
        Subcommand(
            name="forget", help="Use no profile in later commands.", options=CommonOptions, run=forget
        ),
    ),
    examples=(Example("List the profiles. A star marks the profile in use:", "kcli profile list"),),
    exit_status=((0, "The command succeeded."), (1, "There is no such profile, or the options are wrong.")),
)

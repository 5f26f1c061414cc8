"""schemas: shows, checks and changes the schemas of a registry."""

from __future__ import annotations

from kcli.cli.syntax.options import Command, Family, Subcommand
from kcli.cli.tools.schemas.checking import CheckOptions, check
from kcli.cli.tools.schemas.connection import advised
from kcli.cli.tools.schemas.deleting import DeleteOptions, delete
from kcli.cli.tools.schemas.diffing import DiffOptions, diff
from kcli.cli.tools.schemas.exporting import export
from kcli.cli.tools.schemas.getting import GetOptions, get
from kcli.cli.tools.schemas.importing import ImportOptions, import_schemas
from kcli.cli.tools.schemas.listing import ListOptions, list_subjects
from kcli.cli.tools.schemas.putting import PutOptions, put
from kcli.cli.tools.schemas.scopes import ConfigOptions, ModeOptions, config, mode
from kcli.cli.tools.schemas.selection import SelectionOptions
from kcli.command.examples import Example

command = Command(
    name="schemas",
    description="This tool shows, checks and changes the schemas of a registry by its REST API. It works with the "
    "registries of kcli and of Confluent, with Karapace, and with Redpanda.",
    family=Family.ARGPARSE4J,
    prog="kcli schemas",
    help_exit=0,
    error_exit=2,
    subcommands=(
        Subcommand(
            name="list",
            help="List subjects with their latest versions.",
            options=ListOptions,
            run=advised(list_subjects),
        ),
        Subcommand(
            name="get",
            help="Show the schema of a subject and a version (default: the latest), of an id, or of a guid.",
            options=GetOptions,
            run=advised(get),
            positional="SUBJECT",
        ),
        Subcommand(
            name="put",
            help="Register the schema of a file.",
            options=PutOptions,
            run=advised(put),
            positional="FILE",
        ),
        Subcommand(
            name="check",
            help="Check whether the schemas of files are compatible, and show which consumers would break.",
            options=CheckOptions,
            run=advised(check),
            positional="FILE",
        ),
        Subcommand(
            name="diff",
            help="Show the differences between two versions of a subject, or between two registries.",
            options=DiffOptions,
            run=advised(diff),
            positional="SUBJECT",
        ),
        Subcommand(
            name="delete",
            help="Delete a subject, or a version of it.",
            options=DeleteOptions,
            run=advised(delete),
            positional="SUBJECT",
        ),
        Subcommand(
            name="export",
            help="Write the schemas to a directory, with their ids, configs and modes.",
            options=SelectionOptions,
            run=advised(export),
            positional="DIR",
        ),
        Subcommand(
            name="import",
            help="Register the schemas of such a directory under their ids.",
            options=ImportOptions,
            run=advised(import_schemas),
            positional="DIR",
        ),
        Subcommand(
            name="config",
            help="Show or change the compatibility level and other settings of a subject, or of the registry.",
            options=ConfigOptions,
            run=advised(config),
            positional="SUBJECT",
        ),
        Subcommand(
            name="mode",
            help="Show or change the mode of a subject, or of the registry.",
            options=ModeOptions,
            run=advised(mode),
            positional="SUBJECT",
        ),
    ),
    examples=(
        Example("List the subjects of a registry on this machine:", "kcli schemas list"),
        Example(
            "Fail a build if a schema would break consumers:",
            "kcli schemas check schemas/ --registry http://localhost:8081",
        ),
        Example(
            "Copy a registry to another one, with all ids:",
            "kcli schemas export backup --registry http://localhost:8081\n"
            "kcli schemas import backup --registry http://localhost:8082",
        ),
    ),
    exit_status=(
        (0, "The command succeeded. check: all schemas are compatible. diff: there is no difference."),
        (
            1,
            "A schema is not compatible, registries or versions differ, or an import has conflicts.",
        ),
        (2, "The registry refused the request or does not answer, or an argument or a file is invalid."),
    ),
)

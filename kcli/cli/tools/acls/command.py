"""kafka-acls: adds, removes and lists the ACLs of a cluster (KIP-140, KIP-290), and checks whether ACLs allow an
operation."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.connect import admin
from kcli.cli.output import Output, java_text
from kcli.cli.syntax.options import Command, CommandError, UsageError
from kcli.cli.tools.acls.bindings import (
    Bindings,
    Entry,
    Pattern,
    acl_entry,
    entry_filter,
    grouped,
    pattern_filter,
    pattern_type_of,
    patterns_of,
    principal_of,
    wanted_bindings,
)
from kcli.cli.tools.acls.check import check, parse
from kcli.cli.tools.acls.options import AclsOptions, check_options
from kcli.command.examples import FAILURE, INTERRUPTED, Example
from kcli.errors import KafkaError
from kcli.model.acl import PatternType
from kcli.model.java_text import trim
from kcli.security.acls.filters import AclFilter

if TYPE_CHECKING:
    from kcli.client.admin.admin import AdminClient
    from kcli.metadata.image import AclEntry


@dataclass(frozen=True, slots=True)
class AclRow:
    """One ACL."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str


async def run(options: AclsOptions, output: Output) -> int:
    """Performs the action that the options select."""
    check_options(options)
    try:
        if options.check is not None:
            parse(options)  # a mistake is reported before the tool connects
        async with admin(options, bootstrap_controller=options.bootstrap_controller) as client:
            if options.check is not None:
                return await check(options, client, output)
            if options.add:
                await _add(options, client, output)
            elif options.remove:
                await _remove(options, client, output)
            else:
                await _list(options, client, output)
    except KafkaError as error:
        raise _failed(java_text(error), output) from error
    except CommandError as error:
        raise _failed(str(error), output) from error
    return 0


def _failed(message: str, output: Output) -> CommandError:
    """Reports a failure on stdout, as Kafka's tool does. An empty line stands for the stack trace of Kafka's tool."""
    if not output.is_text or not message:
        return CommandError(message)
    output.say(f"Error while executing ACL command: {message}\n")
    return CommandError()


async def _add(options: AclsOptions, client: AdminClient, output: Output) -> None:
    pattern_type = pattern_type_of(options.resource_pattern_type)
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise UsageError(
            f"A '--resource-pattern-type' value of '{pattern_type.name}' is not valid when adding acls."
        )
    bindings = wanted_bindings(options)
    if not all(bindings.values()):
        raise UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    for pattern, entries in bindings.items():
        output.say(f"Adding ACLs for resource `{pattern}`: \n {_lines(entries)}\n")
        _rows(output, {pattern: entries})
        if not options.dry_run:
            errors = await client.create_acls([acl_entry(pattern, entry) for entry in entries])
            _raise_first(errors)


async def _remove(options: AclsOptions, client: AdminClient, output: Output) -> None:
    for pattern, entries in wanted_bindings(options).items():
        filters = [entry_filter(pattern, entry) for entry in entries] or [pattern_filter(pattern)]
        if options.dry_run:
            await _show_removal(client, filters, output)
        elif _is_confirmed(options, _question(pattern, entries)):
            _raise_first(await client.delete_acls(filters))


async def _show_removal(client: AdminClient, filters: Iterable[AclFilter], output: Output) -> None:
    removed: dict[AclEntry, None] = {}
    for acl_filter in filters:
        removed |= dict.fromkeys(await client.describe_acls(acl_filter))
    for pattern, entries in grouped(removed).items():
        output.say(f"Would remove ACLs for resource `{pattern}`: \n {_lines(entries)}\n")
        _rows(output, {pattern: entries})


async def _list(options: AclsOptions, client: AdminClient, output: Output) -> None:
    entries: dict[AclEntry, None] = {}
    patterns = patterns_of(options)
    principals = list(dict.fromkeys(map(principal_of, options.principal)))
    for acl_filter in [pattern_filter(pattern) for pattern in patterns] or [AclFilter()]:
        entries |= dict.fromkeys(await client.describe_acls(acl_filter))
    if not principals:
        _print(output, grouped(entries))
    for principal in principals:
        output.say(f"ACLs for principal `{principal}`")
        _print(output, grouped(acl for acl in entries if acl.principal == principal))


def _print(output: Output, bindings: Bindings) -> None:
    for pattern, entries in bindings.items():
        output.say(f"Current ACLs for resource `{pattern}`:\n{_lines(entries)}\n")
    _rows(output, bindings)


def _rows(output: Output, bindings: Bindings) -> None:
    """Writes the rows of json and tsv."""
    if output.is_text:
        return
    for pattern, entries in bindings.items():
        for entry in entries:
            row = AclRow(
                pattern.resource_type.name,
                pattern.name,
                pattern.pattern_type.name,
                entry.principal,
                entry.host,
                entry.operation.name,
                entry.permission.name,
            )
            output.row(row, "")


def _lines(entries: Iterable[Entry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)


def _question(pattern: Pattern, entries: list[Entry]) -> str:
    if not entries:
        return f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)"
    return f"Are you sure you want to remove ACLs: \n {_lines(entries)}\n from resource filter `{pattern}`? (y/n)"


def _is_confirmed(options: AclsOptions, question: str) -> bool:
    """Asks for confirmation on the terminal. Raises CommandError if there is no terminal, because Kafka's tool then
    fails too."""
    if options.force:
        return True
    print(question, flush=True)
    if not sys.stdin.isatty():
        raise CommandError("there is no terminal to answer the question. Nothing was removed: add --force")
    return trim(sys.stdin.readline()).lower() == "y"


def _raise_first(results: Iterable[KafkaError | int | None]) -> None:
    for result in results:
        if isinstance(result, KafkaError):
            raise result


command = Command(
    name="acls",
    description="This tool helps to manage acls on kafka.",
    options=AclsOptions,
    run=run,
    examples=(
        Example(
            "Let alice produce to a topic, and bob consume from it:",
            "kcli acls --bootstrap-server localhost:9092 --add \\\n"
            "  --allow-principal User:alice --producer --topic orders\n"
            "kcli acls --bootstrap-server localhost:9092 --add \\\n"
            "  --allow-principal User:bob --consumer --topic orders --group bills",
        ),
        Example(
            "Find out whether alice may write to a topic, and which ACL decides:",
            "kcli acls --bootstrap-server localhost:9092 \\\n  --check User:alice Write topic:orders",
        ),
        Example(
            "List the ACLs that apply to a topic, one JSON object per line:",
            "kcli acls --bootstrap-server localhost:9092 --list --topic orders \\\n"
            "  --resource-pattern-type match --output json",
        ),
        Example(
            "Remove all ACLs of a topic without a question:",
            "kcli acls --bootstrap-server localhost:9092 --remove --topic orders --force",
        ),
    ),
    exit_status=(
        (0, "The action succeeded. With --check: the operation is allowed."),
        FAILURE,
        INTERRUPTED,
    ),
)

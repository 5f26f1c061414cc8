"""kafka-consumer-groups: lists, describes and deletes consumer groups, and resets and deletes their offsets.

A failure after the command line was parsed is reported on stdout as `Error: …`, and the exit code is 0, as with Kafka's
own tool. Each action has its own module.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

from kcli.cli.connect import NO_CLIENT, admin
from kcli.cli.output import Output, warn
from kcli.cli.syntax.jopt import let_through
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    OnParseError,
    ParseError,
)
from kcli.cli.tools.consumer_groups.failures import ExecutionError, action_failed, execution_failed
from kcli.cli.tools.consumer_groups.groups import list_groups
from kcli.cli.tools.consumer_groups.options import ConsumerGroupsOptions, check
from kcli.cli.watch import watch
from kcli.client.admin.admin import AdminClient
from kcli.command.examples import Example
from kcli.errors import KafkaError

Action = Callable[[ConsumerGroupsOptions, AdminClient, Output], Awaitable[None]]


async def run(options: ConsumerGroupsOptions, output: Output) -> None:
    """Checks the options as Kafka does, then performs the action that the options select."""
    check(options)
    if options.validate_regex is not None:
        from kcli.cli.tools.consumer_groups.regex import verdict

        output.say(verdict(options.validate_regex))
        return
    try:
        client = admin(options)
    except CommandError as error:
        _report_no_client(output, error)
        return
    async with client:
        if options.watch is None:
            await _act(_action(options), options, client, output)
        else:
            act = functools.partial(_act, _watched_action(), options, client)
            await watch(options.watch, act, output.format)


async def _act(action: Action, options: ConsumerGroupsOptions, client: AdminClient, output: Output) -> None:
    """Performs the action once and reports its failure."""
    try:
        await action(options, client, output)
    except ExecutionError as error:
        action_failed(output, str(error))
    except KafkaError as error:
        execution_failed(output, error)


def _report_no_client(output: Output, error: CommandError) -> None:
    """Reports that no admin client could be created, as Kafka's tool does. The reason goes to stderr."""
    if isinstance(error.__cause__, FileNotFoundError):
        reason = f"java.nio.file.NoSuchFileException: {error.__cause__.filename}"
    else:
        reason = NO_CLIENT
        warn(str(error).removeprefix(f"{NO_CLIENT}\nCaused by: "))
    action_failed(output, reason)


def _action(options: ConsumerGroupsOptions) -> Action:
    from kcli.cli.tools.consumer_groups.delete import delete_groups, delete_offsets
    from kcli.cli.tools.consumer_groups.describe import describe
    from kcli.cli.tools.consumer_groups.reset import reset

    if options.list:
        return list_groups
    if options.describe:
        return describe
    if options.delete:
        return delete_groups
    if options.reset_offsets:
        return reset
    return delete_offsets


def _watched_action() -> Action:
    """Returns the action of --describe --watch. The action uses all samples since the tool was started."""
    from kcli.cli.tools.consumer_groups.describe import describe
    from kcli.cli.tools.consumer_groups.watched import Watched

    return functools.partial(describe, tables=Watched())


def _parse_failed(error: ParseError) -> int:
    """Reports a parse error. If joptsimple finds the error only when Kafka's tool uses the value, the error is reported
    like a failed action.
    """
    if not error.is_late:
        return let_through(error)
    action_failed(Output(), str(error))
    return 0


command = Command(
    name="consumer-groups",
    description="This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, "
    "or reset consumer group offsets.",
    options=ConsumerGroupsOptions,
    run=run,
    on_parse_error=OnParseError.MESSAGE,
    parse_failed=_parse_failed,
    examples=(
        Example(
            "Show the lag of a group in records and in seconds:",
            "kcli consumer-groups --bootstrap-server localhost:9092 --describe \\\n"
            "  --group billing --lag-seconds",
        ),
        Example(
            "Make a group read the records of the last hour again:",
            "kcli consumer-groups --bootstrap-server localhost:9092 --reset-offsets \\\n"
            "  --group billing --topic orders --by-duration PT1H --execute",
        ),
    ),
    exit_status=(
        (
            0,
            (
                "The command succeeded, or Ctrl-C ended --watch. The script kafka-consumer-groups.sh also returns 0 if "
                "the command failed and printed Error: and the reason."
            ),
        ),
        (
            1,
            "The command failed, the options are wrong, or you did not answer yes to a question of the command.",
        ),
        (130, "Without --watch: Ctrl-C ended the command."),
    ),
)

"""kafka-delegation-tokens: creates, renews, expires and describes delegation tokens (KIP-48)."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.output import Output, java_text
from kcli.cli.syntax.options import Command, CommandError, Kind, UsageError, flag, forbid, option, require
from kcli.command.examples import USUAL, Example
from kcli.errors import KafkaError
from kcli.model.java_text import trim

if TYPE_CHECKING:
    from kcli.client.admin.admin import AdminClient
    from kcli.client.admin.tokens import DelegationToken, UserName

ACTIONS = ("create", "renew", "expire", "describe")
COLUMNS = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
ROW = "\n{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}\n"
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokensOptions(ClusterOptions):
    create: bool = flag("Create a token. Use --renewer-principal to name users who may renew the token.")
    renew: bool = flag("Renew a token. Use --renew-time-period to set its new expiry time.")
    expire: bool = flag("Expire a token. Use --expiry-time-period to set its new expiry time.")
    describe: bool = flag("Describe the tokens of the users that --owner-principal names.")
    owner_principal: tuple[str, ...] = option(
        "The owner of a token, in the form principalType:principalName. The default owner of a new token is the "
        "user of this tool.",
        metavar="principal",
        repeatable=True,
    )
    renewer_principal: tuple[str, ...] = option(
        "A user who may renew and expire the new token, in the form principalType:principalName.",
        metavar="principal",
        repeatable=True,
    )
    max_life_time_period: int | None = option(
        "The longest life of the new token in milliseconds. -1 means delegation.token.max.lifetime.ms of the broker.",
        Kind.LONG,
        metavar="max life time period",
    )
    renew_time_period: int | None = option(
        "The time in milliseconds until the renewed token expires. -1 means delegation.token.expiry.time.ms of the "
        "broker.",
        Kind.LONG,
        metavar="renew time period",
    )
    expiry_time_period: int | None = option(
        "The time in milliseconds until the token expires. With -1, the token expires immediately.",
        Kind.LONG,
        metavar="expiry time period",
    )
    hmac: str | None = option("The HMAC of the token to renew or to expire.", metavar="hmac")
    all: bool = flag("With --describe: describe every token that the user of this tool may see.")


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token. Principals have the form `Type:name`. The HMAC is the password of the token."""

    token_id: str
    hmac: str = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ExpiryRow:
    """The new expiry time of a token."""

    expiry_timestamp_ms: int


async def run(options: DelegationTokensOptions, output: Output) -> None:
    """Performs the action that the options select."""
    _check(options)
    try:
        async with admin(options) as client:
            if options.create:
                await _create(options, client, output)
            elif options.renew:
                await _renew(options, client, output)
            elif options.expire:
                await _expire(options, client, output)
            else:
                await _describe(options, client, output)
    except KafkaError as error:
        raise CommandError(java_text(error)) from error


def _check(options: DelegationTokensOptions) -> None:
    if sum(options.has(action) for action in ACTIONS) != 1:
        raise UsageError("Command must include exactly one action: --create, --renew, --expire or --describe")
    require(options, "bootstrap-server")
    if options.profile is None:
        require(options, "command-config")
    needed = {
        "create": ("max-life-time-period",),
        "renew": ("hmac", "renew-time-period"),
        "expire": ("hmac", "expiry-time-period"),
    }
    for action, names in needed.items():
        if options.has(action):
            require(options, *names)
    forbid(options, "create", "hmac", "renew-time-period", "expiry-time-period", "all")
    others = ("renewer-principal", "max-life-time-period", "owner-principal", "all")
    forbid(options, "renew", *others, "expiry-time-period")
    forbid(options, "expire", *others, "renew-time-period")
    forbid(options, "describe", "renew-time-period", "max-life-time-period", "hmac", "expiry-time-period")
    forbid(options, "all", "owner-principal")


async def _create(options: DelegationTokensOptions, client: AdminClient, output: Output) -> None:
    renewers = _principals(options.renewer_principal)
    owners = _principals(options.owner_principal)
    lifetime_ms = options.max_life_time_period
    assert lifetime_ms is not None
    output.say(
        f"Calling create token operation with renewers :{_listed(renewers)} , max-life-time-period :{lifetime_ms}"
    )
    token = await client.create_delegation_token(
        renewers=renewers, owner=owners[0] if owners else None, max_lifetime_ms=lifetime_ms
    )
    output.say(f"Created delegation token with tokenId : {token.token_id}")
    _table([token], output)


async def _renew(options: DelegationTokensOptions, client: AdminClient, output: Output) -> None:
    await _set_expiry("renew", options.renew_time_period, client.renew_delegation_token, options, output)


async def _expire(options: DelegationTokensOptions, client: AdminClient, output: Output) -> None:
    await _set_expiry("expire", options.expiry_time_period, client.expire_delegation_token, options, output)


async def _set_expiry(
    operation: str,
    period_ms: int | None,
    call: Callable[[bytes, int], Awaitable[int]],
    options: DelegationTokensOptions,
    output: Output,
) -> None:
    assert period_ms is not None
    output.say(
        f"Calling {operation} token operation with hmac :{options.hmac} , {operation}-time-period :{period_ms}"
    )
    expiry_ms = await call(_decoded(options.hmac or ""), period_ms)
    if output.is_text:
        output.part(f"Completed {operation} operation. New expiry date : {_date(expiry_ms)}")
    else:
        output.row(ExpiryRow(expiry_ms), "")


async def _describe(options: DelegationTokensOptions, client: AdminClient, output: Output) -> None:
    owners = _principals(options.owner_principal)
    if options.all:
        output.say("Calling describe token operation for all tokens.")
    elif owners:
        output.say(f"Calling describe token operation for owners: {_listed(owners)}")
    else:
        # As with Kafka's tool, the request has an empty list of owners, which selects no token.
        output.say("Calling describe token operation for current user.")
    tokens = await client.describe_delegation_tokens(None if options.all else owners)
    output.part(f"Total number of tokens : {len(tokens)}")
    _table(tokens, output)


def _table(tokens: list[DelegationToken], output: Output) -> None:
    output.part(ROW.format(*COLUMNS))
    for token in tokens:
        if output.is_text:
            output.part(_line(token))
        else:
            output.row(_row(token), "")


def _line(token: DelegationToken) -> str:
    return ROW.format(
        token.token_id,
        base64.b64encode(token.hmac).decode("ascii"),
        token.owner,
        token.requester,
        f"[{', '.join(token.renewers)}]",
        *map(_date, (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms)),
    )


def _row(token: DelegationToken) -> TokenRow:
    return TokenRow(
        token_id=token.token_id,
        hmac=base64.b64encode(token.hmac).decode("ascii"),
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp_ms=token.issue_timestamp_ms,
        expiry_timestamp_ms=token.expiry_timestamp_ms,
        max_timestamp_ms=token.max_timestamp_ms,
    )


def _date(timestamp_ms: int) -> str:
    """The local time, to the minute."""
    return datetime.fromtimestamp(timestamp_ms // 1000).strftime("%Y-%m-%dT%H:%M")


def _principals(texts: tuple[str, ...]) -> list[UserName]:
    """Parses principals. Raises CommandError with Kafka's message."""
    principals = []
    for text in texts:
        kind, colon, name = trim(text).partition(":")
        if not (kind and colon and name):
            raise CommandError(
                f"expected a string in format principalType:principalName but got {trim(text)}"
            )
        principals.append((kind, name))
    return principals


def _listed(principals: list[UserName]) -> str:
    return f"[{', '.join(f'{kind}:{name}' for kind, name in principals)}]"


def _decoded(text: str) -> bytes:
    """Decodes Base64 as Java does: the padding may be missing. Raises CommandError with Java's message."""
    if wrong := _NOT_BASE64.search(text):
        raise CommandError(f"Illegal base64 character {ord(wrong.group()):x}")
    stripped = text.rstrip("=")
    if "=" in stripped or len(stripped) % 4 == 1:
        raise CommandError("Last unit does not have enough valid bits")
    return base64.b64decode(stripped + "=" * (-len(stripped) % 4))


command = Command(
    name="delegation-tokens",
    description="This tool helps to create, renew, expire, or describe delegation tokens.",
    options=DelegationTokensOptions,
    run=run,
    examples=(
        Example(
            "Create a token that the user bob may renew:",
            "kcli delegation-tokens --bootstrap-server localhost:9093 --create \\\n"
            "  --command-config alice.properties --max-life-time-period -1 \\\n"
            "  --renewer-principal User:bob",
        ),
        Example(
            "Show the tokens of the user alice:",
            "kcli delegation-tokens --bootstrap-server localhost:9093 --describe \\\n"
            "  --command-config alice.properties --owner-principal User:alice",
        ),
    ),
    exit_status=USUAL,
)

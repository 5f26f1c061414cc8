"""`kafka-configs` for users, clients and ips: their quotas, and users' SCRAM credentials.

A password is salted before it is sent, and no output contains a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kcli.cli.connect import admin
from kcli.cli.output import Output
from kcli.cli.tools.configs.options import ConfigsOptions, Entity
from kcli.cli.tools.configs.resources import ConfigChange, configs_to_add, configs_to_delete
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.quotas import ANY_NAME, CLIENT_ID, IP, USER, ClientQuota, ScramDeletion, ScramUpsertion
from kcli.config.quota import CLIENTS, IPS
from kcli.errors import ErrorCode, KafkaError, ResourceNotFoundException
from kcli.model.java_floats import java_double
from kcli.model.java_order import map_order, string_hash
from kcli.model.java_text import parse_double, parse_int
from kcli.runtime.hidden_arguments import without_secrets
from kcli.security.mechanisms.scram import DEFAULT_ITERATIONS, HIDDEN, MECHANISMS, MIN_ITERATIONS, Mechanism

_TYPES = {"users": USER, "clients": CLIENT_ID, "ips": IP}
# The words for entity types, in the order in which they are printed.
_WORDS = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}

_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")
# The parts of a credential that are no secret. An error about an invalid credential shows only such parts.
_NO_SECRET = re.compile(r"(?:password|iterations=-?[0-9]*)(?:,(?:password|iterations=-?[0-9]*))*")
# Matches up to the end of the argument, because the end of the password is not known.
_IN_ARGUMENTS = re.compile(r"(SCRAM-SHA-[0-9]+\s*=).*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """The quotas of one entity. A null name means the default entity of its type."""

    entity: Mapping[str, str | None]
    quotas: dict[str, float]


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """A credential of a user: its mechanism and iterations."""

    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class UserRow:
    """The credentials of a user."""

    user: str
    credentials: tuple[CredentialRow, ...]


async def act(options: ConfigsOptions, entity: Entity, output: Output) -> None:
    """Describes or alters quotas and credentials. Raises ValueError for an invalid request."""
    async with admin(options, bootstrap_controller=options.bootstrap_controller) as client:
        if options.describe:
            await _describe(client, entity, output)
            return
        added, deleted = configs_to_add(options), configs_to_delete(options)
        _check_keys(entity, added, deleted)
        if any(key in MECHANISMS for key in (*added, *deleted)):
            await _alter_credentials(client, options, entity, added, deleted)
            added = dict.fromkeys(added, HIDDEN)
        else:
            await _alter_quotas(client, options, entity, added, deleted)
    kind, name = entity.type, entity.names[0]
    done = "Would complete" if options.dry_run else "Completed"
    of = f"config for {kind[:-1]} {name}." if name else f"default config for {kind} in the cluster."
    output.row(ConfigChange(kind, name, added, tuple(deleted), options.dry_run), f"{done} updating {of}")


def command_line(arguments: Iterable[str]) -> str:
    """Returns the command line without passwords and credentials, for an error message."""
    words = [_IN_ARGUMENTS.sub(rf"\1{HIDDEN}", argument) for argument in arguments]
    return " ".join(without_secrets(words))


# --- describing


async def _describe(client: AdminClient, entity: Entity, output: Output) -> None:
    quotas = await client.describe_client_quotas(_filter(entity))
    for quota in _in_map_order(quotas):
        values = quota.values
        keys = map_order(values, string_hash, capacity=len(values))
        row = QuotaRow(quota.entity, {key: values[key] for key in keys})
        output.row(row, _quota_line(row))
    if "clients" in entity.types or "ips" in entity.types or "" in entity.names:
        return
    described = await client.describe_user_scram_credentials(entity.names)
    for user, answer in described.items():
        if isinstance(answer, KafkaError):
            if answer.code is not ErrorCode.RESOURCE_NOT_FOUND:
                raise answer
            continue
        credentials = tuple(
            CredentialRow("UNKNOWN" if info.mechanism is None else info.mechanism.name, info.iterations)
            for info in answer
        )
        shown = ", ".join(
            f"{credential.mechanism}=iterations={credential.iterations}" for credential in credentials
        )
        output.row(
            UserRow(user, credentials), f"SCRAM credential configs for user-principal '{user}' are {shown}"
        )


def _filter(entity: Entity) -> dict[str, object]:
    if len(entity.names) > len(entity.types):
        raise ValueError("More entity names specified than entity types")
    entity_filter: dict[str, object] = {_TYPES[kind]: ANY_NAME for kind in entity.types}
    return entity_filter | {
        _TYPES[kind]: name or None for kind, name in zip(entity.types, entity.names, strict=False)
    }


def _in_map_order(quotas: Iterable[ClientQuota]) -> list[ClientQuota]:
    """Returns quotas in the order of the Java HashMap from which Kafka prints them.

    The keys of the map are ClientQuotaEntity, and its capacity is the number of quotas.
    """
    by_key = {tuple(quota.entity.items()): quota for quota in quotas}
    return [by_key[key] for key in map_order(by_key, _entity_hash, capacity=len(by_key))]


def _entity_hash(entity: tuple[tuple[str, str | None], ...]) -> int:
    """Returns Java's hash of a record with one map: 31 plus the sum of the hashes of the map's entries."""
    entries = sum(string_hash(kind) ^ (0 if name is None else string_hash(name)) for kind, name in entity)
    return (31 + entries) & 0xFFFFFFFF


def _quota_line(row: QuotaRow) -> str:
    named = ", ".join(
        f"the default {word}" if row.entity[kind] is None else f"{word} '{row.entity[kind]}'"
        for kind, word in _WORDS.items()
        if kind in row.entity
    )
    values = ", ".join(f"{key}={java_double(value)}" for key, value in row.quotas.items())
    return f"Quota configs for {named} are {values}"


# --- altering


def _check_keys(entity: Entity, added: Mapping[str, str], deleted: list[str]) -> None:
    if entity.type == "ips":
        unknown = [key for key in (*added, *deleted) if key not in IPS]
        if unknown:
            raise ValueError(
                "Only connection quota configs can be added for 'ips' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
        return
    with_clients = "clients" in entity.types
    for keys, verb, collection in ((list(added), "added", "Set"), (deleted, "deleted", "ArrayBuffer")):
        unknown = [key for key in keys if key not in CLIENTS and (with_clients or key not in MECHANISMS)]
        if unknown:
            kinds = "quota configs can" if with_clients else "quota and SCRAM credential configs can"
            raise ValueError(
                f"Only {kinds} be {verb} for '{'clients' if with_clients else 'users'}' using "
                f"--bootstrap-server. Unexpected config names: {collection}({', '.join(unknown)})"
            )
    if not any(key in MECHANISMS for key in (*added, *deleted)):
        return
    if "" in entity.names:
        raise ValueError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    if any(key in CLIENTS for key in (*added, *deleted)):
        raise ValueError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
            "--bootstrap-server."
        )


async def _alter_quotas(
    client: AdminClient,
    options: ConfigsOptions,
    entity: Entity,
    added: Mapping[str, str],
    deleted: list[str],
) -> None:
    named = await client.describe_client_quotas(_filter(entity))
    present = named[0].values if named else {}
    missing = [key for key in deleted if key not in present]
    if missing:
        raise ValueError(f"Invalid config(s): {','.join(missing)}")
    ops: dict[str, float | None] = {key: _parsed(key, text) for key, text in added.items()}
    ops |= dict.fromkeys(deleted)
    who = {_TYPES[kind]: name or None for kind, name in zip(entity.types, entity.names, strict=True)}
    results = await client.alter_client_quotas([(who, ops)], validate_only=options.dry_run)
    _raise_first(results.values())


def _parsed(key: str, text: str) -> float:
    try:
        return parse_double(text)
    except ValueError:
        raise ValueError(f"Cannot parse quota configuration value for {key}: {text}") from None


async def _alter_credentials(
    client: AdminClient,
    options: ConfigsOptions,
    entity: Entity,
    added: Mapping[str, str],
    deleted: list[str],
) -> None:
    user = entity.names[0]
    upsertions = [_upsertion(user, MECHANISMS[key], text) for key, text in added.items()]
    deletions = [ScramDeletion(user=user, mechanism=MECHANISMS[key]) for key in deleted]
    if options.dry_run:
        await _check_deletions(client, user, deletions)
        return
    results = await client.alter_user_scram_credentials([*deletions, *upsertions])
    _raise_first(results.values())


async def _check_deletions(client: AdminClient, user: str, deletions: list[ScramDeletion]) -> None:
    """Raises an error if a credential to delete does not exist. A dry run needs this check, because the API has no
    validate-only mode."""
    credentials = (await client.describe_user_scram_credentials([user])).get(user, ())
    present = () if isinstance(credentials, KafkaError) else [info.mechanism for info in credentials]
    if any(deletion.mechanism not in present for deletion in deletions):
        raise ResourceNotFoundException("Attempt to delete a user credential that does not exist")


def _upsertion(user: str, mechanism: Mechanism, text: str) -> ScramUpsertion:
    credential = _CREDENTIAL.fullmatch(text)
    if credential is None:
        shown = text if _NO_SECRET.fullmatch(text) else HIDDEN
        raise ValueError(f"Invalid credential property {mechanism.java_name}={shown}")
    count, password = credential.groups()
    if count == "":
        raise ValueError('For input string: ""')
    iterations = DEFAULT_ITERATIONS if count in (None, "-1") else parse_int(count)
    if iterations < MIN_ITERATIONS:
        raise ValueError(
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {mechanism.name}"
        )
    return ScramUpsertion(user=user, mechanism=mechanism, iterations=iterations, password=password.encode())


def _raise_first(results: Iterable[KafkaError | None]) -> None:
    for error in results:
        if error is not None:
            raise error

"""Admin calls about client quotas (KIP-546) and SCRAM credentials (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.client.client import Destination, error_of, raise_for
from kcli.errors import ErrorCode, KafkaError, UnacceptableCredentialException
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion
    from kcli.security.mechanisms.scram import Mechanism

USER, CLIENT_ID, IP = "user", "client-id", "ip"

QuotaEntity = Mapping[str, str | None]
"""The names of an entity by type. None is the default entity of the type."""

EntityKey = tuple[tuple[str, str | None], ...]
"""A quota entity that can be a key of a dict: its pairs (type, name), sorted by type."""

ANY_NAME = object()
"""A special name for filters, which selects every entity of the type."""


@dataclass(frozen=True, slots=True)
class ClientQuota:
    """The limits of an entity, by quota key."""

    entity: QuotaEntity
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """A credential to store, derived from a password with 4096 to 16384 iterations."""

    user: str
    mechanism: Mechanism
    iterations: int
    password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramDeletion:
    """A credential to delete."""

    user: str
    mechanism: Mechanism


@dataclass(frozen=True, slots=True)
class ScramInfo:
    """The public part of a credential. The mechanism is None if this client does not support it."""

    mechanism: Mechanism | None
    iterations: int


async def describe_client_quotas(
    client: Client, wanted: Mapping[str, object], *, strict: bool = True
) -> list[ClientQuota]:
    """Returns the quotas of the entities that match `wanted` for each type in `wanted`.

    For each type, `wanted` has a name, None (the default entity) or ANY_NAME.

    If `strict` is True, entities that also have other types are left out.
    """
    from kcli.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

    components = []
    for kind, name in wanted.items():
        if name is ANY_NAME:
            components.append(ComponentData(entity_type=kind, match_type=2, match=None))
        elif name is None:
            components.append(ComponentData(entity_type=kind, match_type=1, match=None))
        else:
            components.append(ComponentData(entity_type=kind, match_type=0, match=str(name)))

    async def attempt() -> list[ClientQuota]:
        request = DescribeClientQuotasRequest(components=tuple(components), strict=strict)
        response = await client.send(request, ApiKey.DESCRIBE_CLIENT_QUOTAS)
        raise_for(response.error_code, response.error_message)
        return [
            ClientQuota(
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in response.entries or ()
        ]

    return await client.call("describeClientQuotas", attempt)


async def alter_client_quotas(
    client: Client,
    changes: Iterable[tuple[QuotaEntity, Mapping[str, float | None]]],
    *,
    validate_only: bool = False,
) -> dict[EntityKey, KafkaError | None]:
    """Sets quotas, and removes quotas whose value is None. Returns the error of each entity, or None."""
    from kcli.protocol.messages import alter_client_quotas as messages

    request = messages.AlterClientQuotasRequest(
        entries=tuple(
            messages.RequestEntryData(
                entity=tuple(
                    messages.RequestEntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ),
                ops=tuple(
                    messages.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in ops.items()
                ),
            )
            for entity, ops in changes
        ),
        validate_only=validate_only,
    )

    async def attempt() -> dict[EntityKey, KafkaError | None]:
        response = await client.send(request, ApiKey.ALTER_CLIENT_QUOTAS, to=Destination.CONTROLLER)
        errors: dict[EntityKey, KafkaError | None] = {}
        for entry in response.entries:
            if entry.error_code is ErrorCode.NOT_CONTROLLER:
                raise_for(entry.error_code, entry.error_message)
            key = tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))
            errors[key] = error_of(entry.error_code, entry.error_message)
        return errors

    return await client.call("alterClientQuotas", attempt)


async def describe_user_scram_credentials(
    client: Client, users: Iterable[str] = ()
) -> dict[str, tuple[ScramInfo, ...] | KafkaError]:
    """Returns mechanisms and iterations of each user, or the user's error.

    Without `users`, returns all users with credentials.
    """
    from kcli.protocol.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        UserName,
    )
    from kcli.security.mechanisms.scram import BY_NUMBER

    request = DescribeUserScramCredentialsRequest(users=tuple(UserName(name=user) for user in users))

    async def attempt() -> dict[str, tuple[ScramInfo, ...] | KafkaError]:
        response = await client.send(request, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
        raise_for(response.error_code, response.error_message)
        return {
            result.user: error_of(result.error_code, result.error_message)
            or tuple(
                ScramInfo(BY_NUMBER.get(info.mechanism), info.iterations) for info in result.credential_infos
            )
            for result in response.results
        }

    return await client.call("describeUserScramCredentials", attempt)


async def alter_user_scram_credentials(
    client: Client, changes: Iterable[ScramUpsertion | ScramDeletion]
) -> dict[str, KafkaError | None]:
    """Stores and deletes credentials. Returns the error of each user, or None.

    Passwords are salted and hashed here, and never sent.
    """
    from kcli.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
    )

    scram_changes = list(changes)
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(
            ScramCredentialDeletion(name=change.user, mechanism=change.mechanism.number)
            for change in scram_changes
            if isinstance(change, ScramDeletion)
        ),
        upsertions=tuple(_salted(change) for change in scram_changes if isinstance(change, ScramUpsertion)),
    )

    async def attempt() -> dict[str, KafkaError | None]:
        response = await client.send(request, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, to=Destination.CONTROLLER)
        errors: dict[str, KafkaError | None] = {}
        for result in response.results:
            if result.error_code is ErrorCode.NOT_CONTROLLER:
                raise_for(result.error_code, result.error_message)
            errors[result.user] = error_of(result.error_code, result.error_message)
        return errors

    return await client.call("alterUserScramCredentials", attempt)


def _salted(change: ScramUpsertion) -> ScramCredentialUpsertion:
    from kcli.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion
    from kcli.security.mechanisms.scram import MAX_ITERATIONS, MIN_ITERATIONS, new_salt, salted_password

    if not change.password:
        raise UnacceptableCredentialException("Password must not be empty")
    # The server also refuses a wrong number of iterations, but only after this client has computed the hash. With a
    # very large number, the hash would never be ready.
    if change.iterations < MIN_ITERATIONS:
        raise UnacceptableCredentialException("Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise UnacceptableCredentialException("Too many iterations")
    salt = new_salt()
    return ScramCredentialUpsertion(
        name=change.user,
        mechanism=change.mechanism.number,
        iterations=change.iterations,
        salt=salt,
        salted_password=salted_password(change.mechanism, change.password, salt, change.iterations),
    )

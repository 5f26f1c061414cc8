"""Alters the SCRAM credentials of users, and describes them without secrets (KIP-554, KIP-900).

Requests contain salted passwords. Only the keys that are derived from these passwords are written to the log. No error
message contains a secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable

from kcli.config.features import SCRAM_SUPPORTED_FROM
from kcli.controller.decision import ApiError, Decision, decide
from kcli.errors import (
    DuplicateResourceException,
    KafkaError,
    ResourceNotFoundException,
    UnacceptableCredentialException,
    UnsupportedSaslMechanismException,
    UnsupportedVersionException,
)
from kcli.metadata.image import MetadataImage, ScramKey
from kcli.model.java_order import hash_order_steps
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kcli.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kcli.protocol.records.metadata import (
    MetadataRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kcli.security.mechanisms.scram import BY_NUMBER, MAX_ITERATIONS, MIN_ITERATIONS, server_keys

Change = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    """Changes one credential per user. Two changes for the same user, even with different mechanisms, are both
    refused."""
    changes: dict[str, MetadataRecord] = {}
    refused: dict[str, KafkaError] = {}
    asked: list[Change] = [*request.deletions, *request.upsertions]
    for change in asked:
        user = change.name
        if user in refused:
            continue
        if changes.pop(user, None) is not None:
            refused[user] = DuplicateResourceException(
                "A user credential cannot be altered twice in the same request"
            )
            continue
        try:
            changes[user] = _record(image, change)
        except KafkaError as error:
            refused[user] = error
    results = [
        *(AlterUserScramCredentialsResult(user=user, error_message=None) for user in changes),
        *(
            AlterUserScramCredentialsResult(
                user=user, error_code=error.code, error_message=ApiError.of(error).message
            )
            for user, error in refused.items()
        ),
    ]
    return decide(list(changes.values()), AlterUserScramCredentialsResponse(results=tuple(results)))


def _record(image: MetadataImage, change: Change) -> MetadataRecord:
    if image.metadata_version < SCRAM_SUPPORTED_FROM.level:
        raise UnsupportedVersionException("The current metadata version does not support SCRAM")
    if not change.name:
        raise UnacceptableCredentialException("Username must not be empty")
    mechanism = BY_NUMBER.get(change.mechanism)
    if mechanism is None:
        raise UnsupportedSaslMechanismException("Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if ScramKey(change.name, change.mechanism) not in image.scram:
            raise ResourceNotFoundException("Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < MIN_ITERATIONS:
        raise UnacceptableCredentialException("Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise UnacceptableCredentialException("Too many iterations")
    keys = server_keys(mechanism, change.salted_password)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=change.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=change.iterations,
    )


def describe_user_scram_credentials(
    image: MetadataImage, request: DescribeUserScramCredentialsRequest
) -> Generator[None, None, DescribeUserScramCredentialsResponse]:
    """The mechanisms and iterations of the named users, or of all users. The response contains no keys.

    Yields after each user, so that the caller can do other work.
    """
    asked: Counter[str] = Counter()
    for user in request.users or ():
        asked[user.name] += 1
        yield
    by_user: dict[str, list[CredentialInfo]] = {}
    for key, credential in sorted(image.scram.items(), key=lambda item: item[0].mechanism):
        info = CredentialInfo(mechanism=key.mechanism, iterations=credential.iterations)
        by_user.setdefault(key.user, []).append(info)
        yield
    results = []
    for name in (yield from hash_order_steps(asked or by_user)):
        results.append(_described(name, by_user.get(name, ()), asked[name]))
        yield
    return DescribeUserScramCredentialsResponse(results=tuple(results))


def _described(user: str, infos: Iterable[CredentialInfo], asked: int) -> DescribeUserScramCredentialsResult:
    error: KafkaError | None = None
    if asked > 1:
        error = DuplicateResourceException(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    elif not infos:
        error = ResourceNotFoundException(
            f"Attempt to describe a user credential that does not exist: {user}"
        )
    if error is not None:
        return DescribeUserScramCredentialsResult(
            user=user, error_code=error.code, error_message=error.message
        )
    return DescribeUserScramCredentialsResult(user=user, credential_infos=tuple(infos))

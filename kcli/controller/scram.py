"""Alters the SCRAM credentials of users, and describes them without secrets (KIP-554, KIP-900).

Requests contain salted passwords. Only the keys that are derived from these passwords are written to the log. No error
message contains a secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from kcli.config.features import SCRAM_SUPPORTED_FROM
from kcli.controller.decision import (
    MAX_RECORDS_PER_BATCH,
    ApiError,
    Decision,
    DecisionSteps,
    StepCounter,
    too_many_records,
)
from kcli.errors import (
    DuplicateResourceException,
    KafkaError,
    ResourceNotFoundException,
    UnacceptableCredentialException,
    UnsupportedSaslMechanismException,
    UnsupportedVersionException,
)
from kcli.metadata.image import MetadataImage, ScramKey
from kcli.model.java_order import hash_order_in_slices
from kcli.model.pace import Pace
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
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kcli.security.mechanisms.scram import BY_NUMBER, MAX_ITERATIONS, MIN_ITERATIONS, server_keys

_USER_COST = 5
"""The cost to describe a user, in microseconds."""

Change = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(
    image: Callable[[], MetadataImage], request: AlterUserScramCredentialsRequest
) -> DecisionSteps[AlterUserScramCredentialsResponse]:
    """Changes one credential per user. Two changes for the same user, even with different mechanisms, are both
    refused.

    Checks the changes in steps, and then makes one decision. `image` returns the present metadata.
    """
    step = StepCounter()
    changes: dict[str, UserScramCredentialRecord | RemoveUserScramCredentialRecord] = {}
    refused: dict[str, KafkaError] = {}
    requested: list[Change] = [*request.deletions, *request.upsertions]
    for change in requested:
        if step.is_full:
            yield ()
        user = change.name
        if user in refused:
            continue
        if changes.pop(user, None) is not None:
            refused[user] = DuplicateResourceException(
                "A user credential cannot be altered twice in the same request"
            )
            continue
        try:
            changes[user] = _record(image(), change)
        except KafkaError as error:
            refused[user] = error
    # Between two steps, another request may have removed a credential.
    for user, record in list(changes.items()):
        if isinstance(record, RemoveUserScramCredentialRecord):
            try:
                _check_exists(image(), user, record.mechanism)
            except KafkaError as gone:
                del changes[user]
                refused[user] = gone
    if len(changes) > MAX_RECORDS_PER_BATCH:
        raise too_many_records()
    records = tuple(changes.values())
    results = [AlterUserScramCredentialsResult(user=user, error_message=None) for user in changes]
    # If the response is large, the records are appended before it is complete. It is sent when they are committed.
    for user, reason in refused.items():
        if step.is_full:
            yield records
            records = ()
        results.append(
            AlterUserScramCredentialsResult(
                user=user, error_code=reason.code, error_message=ApiError.of(reason).message
            )
        )
    return Decision(records, AlterUserScramCredentialsResponse(results=tuple(results)))


def _record(
    image: MetadataImage, change: Change
) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    if image.metadata_version < SCRAM_SUPPORTED_FROM.level:
        raise UnsupportedVersionException("The current metadata version does not support SCRAM")
    if not change.name:
        raise UnacceptableCredentialException("Username must not be empty")
    mechanism = BY_NUMBER.get(change.mechanism)
    if mechanism is None:
        raise UnsupportedSaslMechanismException("Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        _check_exists(image, change.name, change.mechanism)
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


def _check_exists(image: MetadataImage, user: str, mechanism: int) -> None:
    if ScramKey(user, mechanism) not in image.scram:
        raise ResourceNotFoundException("Attempt to delete a user credential that does not exist")


async def describe_user_scram_credentials(
    image: MetadataImage, request: DescribeUserScramCredentialsRequest, pace: Pace
) -> DescribeUserScramCredentialsResponse:
    """The mechanisms and iterations of the named users, or of all users. The response contains no keys."""
    counts: Counter[str] = Counter()
    for user in request.users or ():
        await pace(_USER_COST)
        counts[user.name] += 1
    by_user: dict[str, list[CredentialInfo]] = {}
    for key, credential in sorted(image.scram.items(), key=lambda item: item[0].mechanism):
        await pace(_USER_COST)
        info = CredentialInfo(mechanism=key.mechanism, iterations=credential.iterations)
        by_user.setdefault(key.user, []).append(info)
    results = []
    for name in await hash_order_in_slices(counts or by_user, pace, _USER_COST):
        await pace(_USER_COST)
        results.append(_described(name, by_user.get(name, ()), counts[name]))
    return DescribeUserScramCredentialsResponse(results=tuple(results))


def _described(user: str, infos: Iterable[CredentialInfo], count: int) -> DescribeUserScramCredentialsResult:
    error: KafkaError | None = None
    if count > 1:
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

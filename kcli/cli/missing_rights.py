"""Shows which permissions a tool lacked, in addition to the error that Kafka's tool shows.

The clients of a tool pass each answer to the function that `watch` returns. If the answer refuses an operation, the
missing permission is looked up in the row of the API (kcli.server.requests.apis). `run_command` prints the missing
permissions when the tool ends.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from kcli.cli.output import warn
from kcli.errors import ErrorCode, KafkaError
from kcli.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from kcli.security.acls.grants import Right, granting

if TYPE_CHECKING:
    from kcli.client.config import ClientConfig
    from kcli.protocol.wire.api import ApiKey
    from kcli.protocol.wire.codec import Message
    from kcli.server.requests.access import Access

SHOWN_MAX = 3
"""The most missing permissions that are printed. If 1,000 topics are refused, the user needs one ACL for a prefix, not
1,000 lines.
"""


@dataclass(slots=True)
class _Seen:
    """The permissions that the client of a tool lacks, each with the refused API if this API is known."""

    config: ClientConfig | None = None
    rights: dict[tuple[ApiKey | None, Right], None] = field(default_factory=dict)


_seen: ContextVar[_Seen | None] = ContextVar("missing_rights", default=None)

_NAMES: Mapping[ResourceType, tuple[str, ...]] = {
    ResourceType.TOPIC: ("name", "topic", "topic_name", "resource_name"),
    ResourceType.GROUP: ("group_id", "group", "key", "resource_name"),
    ResourceType.TRANSACTIONAL_ID: ("transactional_id", "key"),
    ResourceType.CLUSTER: (),
    ResourceType.USER: (),
}
"""The fields of requests and answers that contain the name of a resource, by the type of the resource."""

_REFUSED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ResourceType.TOPIC,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ResourceType.GROUP,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ResourceType.TRANSACTIONAL_ID,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ResourceType.CLUSTER,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: ResourceType.USER,
}

_RANDOM_GROUP = re.compile(r"(?P<prefix>(console|perf)-consumer-)\d+", re.ASCII)

_ARRAY = re.compile(r"tuple\[(\w+), \.\.\.\]", re.ASCII)


@contextmanager
def shown_at_end() -> Iterator[None]:
    """Collects the permissions that are missing inside the `with` block, and prints them at the end of the block."""
    seen = _Seen()
    token = _seen.set(seen)
    try:
        yield
    finally:
        _seen.reset(token)
        _show(seen)


def watch(config: ClientConfig) -> Callable[[ApiKey, Message, Message], None]:
    """Returns the function to which a client with these settings passes each request with its answer."""
    set_client(config)
    return _watched


def set_client(config: ClientConfig) -> None:
    """Stores the settings of the tool's client. These settings show the principal of the client."""
    if (seen := _seen.get()) is not None:
        seen.config = config


def lacks(operation: AclOperation, kind: ResourceType, name: str) -> None:
    """Remembers a permission that the client lacks."""
    _add(None, Right(operation, kind, name))


def producer_lacks(error: KafkaError, topic: str, transactional_id: object = None) -> None:
    """Remembers the permission that a producer lacks, if the error of the producer is about a missing permission."""
    match error.code:
        # An idempotent producer needs Write on any topic (KIP-679). Without this permission, the error is
        # CLUSTER_AUTHORIZATION_FAILED.
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED | ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            lacks(AclOperation.WRITE, ResourceType.TOPIC, topic)
        case ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            lacks(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, str(transactional_id))


@contextmanager
def transaction_lacks(topic: str, transactional_id: object) -> Iterator[None]:
    """Remembers the permission that a producer lacks, if a transaction fails inside the `with` block."""
    from kcli.rdkafka.errors import TransactionError

    try:
        yield
    except TransactionError as error:
        if isinstance(error.__cause__, KafkaError):
            producer_lacks(error.__cause__, topic, transactional_id)
        raise


def consumer_lacks(code: int, topic: str | None, group: str | None) -> None:
    """Remembers the permission that a consumer lacks, if the error of the consumer is about a missing permission.

    A tool without --group uses a new group each time. The name of the group ends with a random number, so the ACL must
    be for a prefix.
    """
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and topic:
        lacks(AclOperation.READ, ResourceType.TOPIC, topic)
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED and group:
        random_name = _RANDOM_GROUP.fullmatch(group)
        name = random_name["prefix"] if random_name else group
        _add(None, Right(AclOperation.READ, ResourceType.GROUP, name, is_prefix=bool(random_name)))


def forgive(key: ApiKey) -> None:
    """Forgets the refusals of one API, because the tool does not need the answer of this API."""
    if (seen := _seen.get()) is not None:
        seen.rights = {right: None for right in seen.rights if right[0] is not key}


def refused(key: ApiKey, request: Message, answer: Message) -> Iterator[Right]:
    """Yields the missing permission for each refusal in an answer. The same permission may come several times."""
    access: Access | None = None
    for kind, names in _refusals(answer, _texts(request)):
        access = access or _access(key)
        operation = next((need.operation for need in access.needs if need.resource_type is kind), None)
        name = _name(kind, names)
        if operation is not None and name:
            yield Right(operation, kind, name)


def _watched(key: ApiKey, request: Message, answer: Message) -> None:
    for right in refused(key, request, answer):
        _add(key, right)


def _add(key: ApiKey | None, right: Right) -> None:
    if (seen := _seen.get()) is not None:
        seen.rights[key, right] = None


def _show(seen: _Seen) -> None:
    if not seen.rights:
        return
    from kcli.cli.own_principal import own_principal

    principal = "User:ANONYMOUS" if seen.config is None else own_principal(seen.config)
    rights = list(dict.fromkeys(right for _, right in seen.rights))
    for right in rights[:SHOWN_MAX]:
        warn(f"{principal} may not {right}. This command allows it: {granting(principal, right)}")
    if len(rights) > SHOWN_MAX:
        warn(f"{len(rights) - SHOWN_MAX} more rights are missing.")


def _access(key: ApiKey) -> Access:
    from kcli.server.requests.apis import APIS

    return APIS[key].access


def _refusals(part: Message, names: Mapping[str, str]) -> Iterator[tuple[ResourceType, Mapping[str, str]]]:
    """Yields each refusal, with the text fields of the struct that contains the refusal, and of all outer structs."""
    here = {**names, **_texts(part)}
    kind = _REFUSED.get(getattr(part, "error_code", ErrorCode.NONE))
    if kind is not None:
        yield kind, here
    struct: type = type(part)
    for array in _arrays(struct):
        elements = getattr(part, array)
        # All partitions of a topic are refused together.
        is_partitions = elements and any(
            hasattr(elements[0], attribute) for attribute in ("partition_index", "partition")
        )
        for element in elements[:1] if is_partitions else elements or ():
            yield from _refusals(element, here)


@cache
def _arrays(struct: type) -> tuple[str, ...]:
    """The array fields of a struct whose elements contain an error code, directly or in a nested struct."""
    fields = []
    for name, text in struct.__annotations__.items():
        match = _ARRAY.search(text)
        element = getattr(sys.modules[struct.__module__], match[1], None) if match else None
        if hasattr(element, "__annotations__") and (
            "error_code" in element.__annotations__ or _arrays(element)
        ):
            fields.append(name)
    return tuple(fields)


def _texts(part: object) -> dict[str, str]:
    values = ((field, getattr(part, field)) for field in type(part).__annotations__)
    return {field: value for field, value in values if isinstance(value, str) and value}


def _name(kind: ResourceType, names: Mapping[str, str]) -> str | None:
    match kind:
        case ResourceType.CLUSTER:
            return CLUSTER_NAME
        case ResourceType.USER:
            owner = names.get("owner_principal_name")
            return owner and f"{names.get('owner_principal_type', 'User')}:{owner}"
        case _:
            return next((names[field] for field in _NAMES[kind] if field in names), None)

"""The index of ACLs against the naive model, on random ACLs that are added and removed."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import AclEntry, MetadataImage
from kcli.metadata.snapshot import image_records
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.records.metadata import (
    AccessControlEntryRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from kcli.security.acls import index
from kcli.security.acls.index import FEW_LENGTHS, AclIndex, Verdict
from kcli.security.acls.settings import AclSettings
from kcli.security.acls.standard import StandardAuthorizer
from kcli.security.authorizer import Asker, Resource
from kcli.security.principal import Principal

# The rules of ACLs in their shortest form, as a model for the tests of the index.
IMPLIES = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def on_resource(acl: AclEntry, resource_type: int, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def for_client(acl: AclEntry, principal: str, host: str) -> bool:
    return acl.principal in (principal, "User:*") and acl.host in (host, "*")


def decide(
    acls: Collection[AclEntry],
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: int,
    name: str,
    default: bool = False,
) -> bool:
    """Whether the ACLs allow the operation."""
    here = [acl for acl in acls if on_resource(acl, resource_type, name)]
    if not here:
        return default
    mine = [acl for acl in here if for_client(acl, principal, host)]
    exact = {operation, AclOperation.ALL}
    if any(a.permission_type == AclPermissionType.DENY and a.operation in exact for a in mine):
        return False
    enough = exact | IMPLIES.get(operation, set())
    return any(a.permission_type == AclPermissionType.ALLOW and a.operation in enough for a in mine)


def decide_any(
    acls: Collection[AclEntry], principal: str, host: str, operation: AclOperation, resource_type: int
) -> bool:
    """Whether the ACLs allow the operation on some resource of the type (KIP-679)."""
    mine = [
        acl
        for acl in acls
        if acl.resource_type == resource_type
        and for_client(acl, principal, host)
        and acl.operation in (operation, AclOperation.ALL)
    ]
    denied = [acl for acl in mine if acl.permission_type == AclPermissionType.DENY]
    allowed = [acl for acl in mine if acl.permission_type == AclPermissionType.ALLOW]
    literal_denied = {acl.resource_name for acl in denied if acl.pattern_type == PatternType.LITERAL}
    prefix_denied = [acl.resource_name for acl in denied if acl.pattern_type == PatternType.PREFIXED]
    if "*" in literal_denied:
        return False
    if any(acl.pattern_type == PatternType.LITERAL and acl.resource_name == "*" for acl in allowed):
        return True
    return any(
        not any(acl.resource_name.startswith(prefix) for prefix in prefix_denied)
        and (acl.pattern_type == PatternType.PREFIXED or acl.resource_name not in literal_denied)
        for acl in allowed
    )


NAMES = st.sampled_from(["*", "a", "aa", "ab", "aab", "b", "hardcode", "*a", "ä"])
PRINCIPALS = ["User:alice", "User:bob", "User:*", "Group:alice"]
HOSTS = ["*", "10.0.0.1", "0:0:0:0:0:0:0:1"]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP]
OPERATIONS = [
    operation for operation in AclOperation if operation not in (AclOperation.UNKNOWN, AclOperation.ANY)
]

ACLS = st.builds(
    AclEntry,
    resource_type=st.sampled_from(TYPES),
    resource_name=NAMES,
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(HOSTS),
    operation=st.sampled_from(OPERATIONS),
    permission_type=st.sampled_from([AclPermissionType.ALLOW, AclPermissionType.DENY]),
)
QUESTIONS = st.tuples(
    st.sampled_from(["User:alice", "User:bob", "Group:alice"]),
    st.sampled_from(["10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"]),
    st.sampled_from(OPERATIONS),
    st.sampled_from(TYPES),
    NAMES,
)
# A step adds an ACL, or removes the n-th of those that are there.
STEPS = st.lists(st.one_of(ACLS, st.integers(0, 30)), max_size=25)


def records_of(steps: list[AclEntry | int]) -> list[MetadataRecord]:
    """The records of the steps, as a controller writes them."""
    found: list[MetadataRecord] = []
    present: list[uuid.UUID] = []
    for number, step in enumerate(steps, 1):
        if isinstance(step, AclEntry):
            present.append(uuid.UUID(int=number))
            found.append(
                AccessControlEntryRecord(
                    id=present[-1],
                    resource_type=step.resource_type,
                    resource_name=step.resource_name,
                    pattern_type=step.pattern_type,
                    principal=step.principal,
                    host=step.host,
                    operation=step.operation,
                    permission_type=step.permission_type,
                )
            )
        elif present:
            found.append(RemoveAccessControlEntryRecord(id=present.pop(step % len(present))))
    return found


def replayed(image: MetadataImage, found: list[MetadataRecord], to: StandardAuthorizer) -> MetadataImage:
    """The image after the records. The authorizer follows each record as one commit."""
    for record in found:
        delta = MetadataDelta(image)
        delta.replay(record)
        image = delta.apply(image.offset + 1, 1, 0)
        to.metadata_changed(delta, image)
    return image


@given(STEPS, QUESTIONS, st.booleans())
def test_a_decision_is_that_of_the_naive_model(
    steps: list[AclEntry | int],
    question: tuple[str, str, AclOperation, ResourceType, str],
    default: bool,
) -> None:
    authorizer = StandardAuthorizer(AclSettings(allow_everyone_if_no_acl_found=default))
    authorizer.metadata_changed(MetadataDelta(MetadataImage()), MetadataImage())
    image = replayed(MetadataImage(), records_of(steps), authorizer)
    acls = list(image.acls.values())
    principal, host, operation, resource_type, name = question
    kind, _, user = principal.partition(":")
    asker = Asker(Principal(kind, user), host, "Test")
    expected = decide(acls, *question, default=default)
    resource = Resource(resource_type, name)
    assert authorizer.authorize(asker, operation, resource) == expected
    assert authorizer.explain(asker, operation, resource).is_allowed == expected
    some = decide_any(acls, principal, host, operation, resource_type)
    by_name = decide(acls, principal, host, operation, resource_type, "hardcode", default=default)
    assert authorizer.authorize_any(asker, operation, resource_type) == (some or by_name)


@given(STEPS, QUESTIONS, st.sampled_from([0, FEW_LENGTHS]))
def test_each_change_holds_for_the_next_decision(
    steps: list[AclEntry | int],
    question: tuple[str, str, AclOperation, ResourceType, str],
    few_lengths: int,
) -> None:
    """With `few_lengths` 0, each check searches in the sorted prefixes."""
    authorizer, image = StandardAuthorizer(AclSettings()), MetadataImage()
    principal, host, operation, resource_type, name = question
    kind, _, user = principal.partition(":")
    asked = Asker(Principal(kind, user), host, "Test"), operation, Resource(resource_type, name)
    with mock.patch.object(index, "FEW_LENGTHS", few_lengths):
        for record in records_of(steps):
            image = replayed(image, [record], authorizer)
            assert authorizer.authorize(*asked) == decide(list(image.acls.values()), *question)


@given(STEPS)
def test_the_image_has_what_was_added_and_not_removed_also_from_a_snapshot(
    steps: list[AclEntry | int],
) -> None:
    found = records_of(steps)
    expected = {}
    for record in found:
        if isinstance(record, AccessControlEntryRecord):
            expected[record.id] = record.resource_name
        elif isinstance(record, RemoveAccessControlEntryRecord):
            del expected[record.id]
    followed = StandardAuthorizer(AclSettings())
    image = replayed(MetadataImage(), found, followed)
    assert {key: acl.resource_name for key, acl in image.acls.items()} == expected

    restarted = StandardAuthorizer(AclSettings())
    again = replayed(MetadataImage(), list(image_records(image)), restarted)
    assert again.acls == image.acls

    installed = StandardAuthorizer(AclSettings())
    installed.metadata_changed(MetadataDelta.between(MetadataImage(), image), image)
    for authorizer in (followed, restarted, installed):
        assert dict(authorizer.acls()) == dict(image.acls)


@given(st.lists(st.text("ab", min_size=1, max_size=30), max_size=30), st.text("ab", max_size=40))
def test_the_longest_prefix_is_found_among_many_lengths(prefixes: list[str], name: str) -> None:
    indexed = AclIndex()
    for number, prefix in enumerate(prefixes):
        acl = AclEntry(
            ResourceType.TOPIC, prefix, PatternType.PREFIXED, "User:a", "*", AclOperation.READ,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        indexed.add(uuid.UUID(int=number), acl)
    verdict = indexed.decide("User:a", "10.0.0.1", AclOperation.READ, ResourceType.TOPIC, name)
    assert (verdict is Verdict.ALLOWED) == any(name.startswith(prefix) for prefix in prefixes)


@given(st.lists(ACLS, max_size=20), QUESTIONS)
def test_the_rule_that_decides_is_one_that_applies(
    acls: list[AclEntry], question: tuple[str, str, AclOperation, ResourceType, str]
) -> None:
    indexed = AclIndex()
    for number, acl in enumerate(acls):
        indexed.add(uuid.UUID(int=number), acl)
    principal, host, _operation, resource_type, name = question
    verdict, acl = indexed.decide(*question), indexed.deciding(*question)
    assert (acl is not None) == (verdict in (Verdict.ALLOWED, Verdict.DENIED))
    if acl is not None:
        assert on_resource(acl, resource_type, name)
        assert for_client(acl, principal, host)
        assert (acl.permission_type == AclPermissionType.ALLOW) == (verdict is Verdict.ALLOWED)

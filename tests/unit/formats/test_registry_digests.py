"""The digest of a schema and its guid."""

from __future__ import annotations

import hashlib
import uuid

import pytest

from kcli.formats.registry.digests import digest_of, digest_of_guid, guid_of
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.registry.rule_sets import ExecutionEnvironment, Metadata, Rule, RuleKind, RuleMode, RuleSet
from kcli.formats.schemas import SchemaReference

METADATA = Metadata(tags={"a": ("T", "U"), "b": ()}, properties={"k": "v"}, sensitive=("k",))
RULE = Rule(
    "n",
    "CEL",
    doc="d",
    kind=RuleKind.CONDITION,
    mode=RuleMode.WRITE,
    tags=("PII",),
    params={"p": "q"},
    expr="e",
    on_success="s",
    on_failure="f",
    disabled=True,
)


@pytest.mark.parametrize(
    ("definition", "content"),
    [
        (SchemaDefinition('"int"'), b'"int"'),
        (SchemaDefinition('"int"', "JSON"), b'"int"'),
        (SchemaDefinition("\N{SNOWMAN}\ud800"), b"\xe2\x98\x83?"),
        (SchemaDefinition("x", references=(SchemaReference("n", "s", 258),)), b"xns\x00\x00\x01\x02"),
        (SchemaDefinition("x", references=(SchemaReference("n", "s", -1),)), b"xns\xff\xff\xff\xff"),
        (SchemaDefinition("x", metadata=Metadata()), b"x\x01"),
        (SchemaDefinition("x", metadata=METADATA), b"x\x01aTUbkvk"),
        (SchemaDefinition("x", rule_set=RuleSet()), b"x\x01"),
        (
            SchemaDefinition("x", rule_set=RuleSet(domain_rules=(RULE,))),
            b"x\x01ndCONDITIONWRITECELPIIpqesf\x01",
        ),
        (SchemaDefinition("x", rule_set=RuleSet(enable_at=ExecutionEnvironment.CLIENT)), b"x\x01CLIENT"),
        (
            SchemaDefinition(
                "x", metadata=METADATA, rule_set=RuleSet((Rule("a", None),), (), (Rule("b", None),))
            ),
            b"x\x01aTUbkvk\x01aTRANSFORMWRITEREADbTRANSFORMWRITEREAD",
        ),
    ],
)
def test_a_digest_is_the_md5_of_all_parts_in_their_order(
    definition: SchemaDefinition, content: bytes
) -> None:
    assert digest_of(definition) == hashlib.md5(content).digest()


def test_a_guid_is_the_digest_as_a_uuid() -> None:
    digest = digest_of(SchemaDefinition('"int"'))
    guid = guid_of(digest)
    assert guid == str(uuid.UUID(bytes=digest))
    assert digest_of_guid(guid) == digest_of_guid(guid.replace("-", "")) == digest
    assert digest_of_guid("1-2") is None
    assert digest_of_guid("not a guid") is None

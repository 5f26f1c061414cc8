"""The digest of a schema, from which each registry computes the same guid."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.registry.rule_sets import Metadata, Rule, RuleSet

DIGEST_BYTES = 16
_PRESENT = b"\x01"


def digest_of(definition: SchemaDefinition) -> bytes:
    """Returns the MD5 of the text, the references, the metadata and the rules. The type has no influence."""
    # MD5 identifies schemas here and protects nothing, so it also works on systems that forbid it for security.
    digest = hashlib.md5(_bytes(definition.text), usedforsecurity=False)
    for reference in definition.references:
        digest.update(_bytes(reference.name))
        digest.update(_bytes(reference.subject))
        digest.update(reference.version.to_bytes(4, "big", signed=True))
    if definition.metadata is not None:
        digest.update(_PRESENT + b"".join(map(_bytes, _metadata_texts(definition.metadata))))
    if definition.rule_set is not None:
        digest.update(_PRESENT + b"".join(_rule_set_parts(definition.rule_set)))
    return digest.digest()


def guid_of(digest: bytes) -> str:
    """Returns a digest as a UUID."""
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def digest_of_guid(guid: str) -> bytes | None:
    """Returns the digest of a guid, with or without hyphens. Returns None if the text is not a guid."""
    try:
        digest = bytes.fromhex(guid.replace("-", ""))
    except ValueError:
        return None
    return digest if len(digest) == DIGEST_BYTES else None


def _metadata_texts(metadata: Metadata) -> Iterator[str]:
    for path, tags in metadata.tags.items():
        yield path
        yield from tags
    for name, value in metadata.properties.items():
        yield name
        yield value
    yield from metadata.sensitive


def _rule_set_parts(rule_set: RuleSet) -> Iterator[bytes]:
    for rule in (*rule_set.migration_rules, *rule_set.domain_rules, *rule_set.encoding_rules):
        yield from _rule_parts(rule)
    if rule_set.enable_at is not None:
        yield _bytes(rule_set.enable_at.value)


def _rule_parts(rule: Rule) -> Iterator[bytes]:
    texts = [rule.name, rule.doc, rule.kind.value, rule.mode.value, rule.type, *rule.tags]
    for name, value in rule.params.items():
        texts += (name, value)
    texts += (rule.expr, rule.on_success, rule.on_failure)
    for text in texts:
        if text is not None:
            yield _bytes(text)
    if rule.disabled:
        yield _PRESENT


def _bytes(text: str) -> bytes:
    """The text in UTF-8. As in Java, a surrogate without its partner becomes a question mark."""
    return text.encode("utf-8", "replace")

"""The keys of Confluent's clients and serializers that kcli does not use: refused, or ignored with a warning.

A key is refused if the program would write or read other values without it, or get its login from another place.
Every other key of Confluent's is in `settings.py` or in `serde_settings.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.config.definition import ConfigError
from kcli.model.java_text import trim


@dataclass(frozen=True, slots=True)
class UnusedKey:
    """A key without effect, and the reason. `usual` is the value that asks for what kcli does anyway: a text in lower
    case, or the name of a class without its package."""

    reason: str
    usual: str | None = None
    is_refused: bool = False


_CACHE = UnusedKey("kcli keeps up to 1,000 schemas in memory")
_MISSES = UnusedKey("kcli asks again for a schema that was missing")
_ORDER = UnusedKey("kcli tries the URLs in their order", "false")
_TOKENS = UnusedKey("kcli reads the times of a token only, and gets a new token before the old one expires")
_NO_PROXY = UnusedKey("requests to a schema registry cannot go through a proxy", "", is_refused=True)
_NO_PROVIDER = UnusedKey("kcli gets tokens from bearer.auth.issuer.endpoint.url", "", is_refused=True)

CLIENT: dict[str, UnusedKey] = {
    "proxy.host": _NO_PROXY,
    "proxy.port": _NO_PROXY,
    "bearer.auth.custom.provider.class": _NO_PROVIDER,
    "bearer.auth.custom.provider.function": _NO_PROVIDER,
    "bearer.auth.custom.provider.config": _NO_PROVIDER,
    "bearer.auth.uami.endpoint.url": _NO_PROVIDER,
    "bearer.auth.uami.endpoint.query": _NO_PROVIDER,
    "bearer.auth.issuer.endpoint.query": _NO_PROVIDER,
    "bearer.auth.cache.expiry.buffer.seconds": _TOKENS,
    "bearer.auth.scope.claim.name": _TOKENS,
    "bearer.auth.sub.claim.name": _TOKENS,
    "url.randomize": _ORDER,
    "use.apache.http.client": UnusedKey("kcli has one HTTP client"),
    "missing.cache.size": _MISSES,
    "missing.id.cache.ttl.sec": _MISSES,
    "missing.schema.cache.ttl.sec": _MISSES,
    "missing.version.cache.ttl.sec": _MISSES,
    "cache.capacity": _CACHE,
    "cache.latest.ttl.sec": UnusedKey("the key of kcli and of Java is latest.cache.ttl.sec"),
}
"""The keys of a registry's client. They may have the prefix schema.registry. too."""

_NO_RULES = UnusedKey("kcli executes no rules", is_refused=True)
_RULE_DETAIL = UnusedKey("kcli executes no rules")
_JAVA_CLASSES = UnusedKey("kcli makes no Java objects")
_REFERENCES = UnusedKey(
    "kcli registers no schemas of references: register them first, and name them in value.refs"
)
_ID_READERS = UnusedKey(
    "kcli looks at the header first, and then at the first bytes", "dualschemaiddeserializer", is_refused=True
)

SERDE: dict[str, UnusedKey] = {
    "max.schemas.per.subject": _CACHE,
    "latest.cache.size": _CACHE,
    "use.schema.guid": UnusedKey("kcli takes the id of a schema: use.schema.id", "", is_refused=True),
    "schema.format": UnusedKey("kcli registers the text of a schema as it is", "", is_refused=True),
    "schema.reflection": UnusedKey(_JAVA_CLASSES.reason, "false"),
    "schema.backup.enabled": UnusedKey("kcli writes no second copy of a schema", "false", is_refused=True),
    "context.name.strategy": UnusedKey(
        "kcli takes the context from the subject, such as :.ctx:orders-value",
        "nullcontextnamestrategy",
        is_refused=True,
    ),
    "key.schema.id.deserializer": _ID_READERS,
    "value.schema.id.deserializer": _ID_READERS,
    "schema.id.deserializer": _ID_READERS,
    "schema.id.serializer": UnusedKey(
        "set key.schema.id.serializer or value.schema.id.serializer", is_refused=True
    ),
    "subject.name.strategy": UnusedKey(
        "set key.subject.name.strategy or value.subject.name.strategy", is_refused=True
    ),
    "subject.name.strategy.conf": UnusedKey("write each of its members as a key", is_refused=True),
    "rule.executors": _NO_RULES,
    "rule.actions": _NO_RULES,
    "validation.rules.execution": UnusedKey(_NO_RULES.reason, "disabled", is_refused=True),
    "validation.rules.executor": _NO_RULES,
    "validation.rules.executor.class": _RULE_DETAIL,
    "validation.rules.fail.fast": _RULE_DETAIL,
    "rule.service.loader.enable": _RULE_DETAIL,
    "rule.metrics.enable": _RULE_DETAIL,
    "execution.environment": _RULE_DETAIL,
    "json.validate.before.domain.rules": _RULE_DETAIL,
    "avro.remove.java.properties": UnusedKey(
        "kcli registers the text of a schema as it is", "false", is_refused=True
    ),
    "avro.fail.on.trailing.data": UnusedKey("kcli never reads a value with bytes after its end", "true"),
    "avro.reflection.allow.null": _JAVA_CLASSES,
    "avro.use.logical.type.converters": _JAVA_CLASSES,
    "specific.avro.reader": UnusedKey(_JAVA_CLASSES.reason, "false"),
    "specific.avro.key.type": _JAVA_CLASSES,
    "specific.avro.value.type": _JAVA_CLASSES,
    "validate": UnusedKey("the key of kcli and of Java is json.fail.invalid.schema"),
    "validate.strict": UnusedKey("kcli never writes a value with a field that the schema does not have", "true"),
    "validate.strict.allow.default": UnusedKey("a field with a default need not be in the value", "true"),
    "reference.subject.name.strategy": _REFERENCES,
    "reference.lookup.only": _REFERENCES,
    "skip.known.types": UnusedKey("kcli registers no schemas of google.protobuf", "true"),
    "use.deprecated.format": UnusedKey("kcli writes message indexes as zigzag numbers", "false", is_refused=True),
    "derive.type": _JAVA_CLASSES,
    "specific.protobuf.key.type": _JAVA_CLASSES,
    "specific.protobuf.value.type": _JAVA_CLASSES,
    "json.default.property.inclusion": _JAVA_CLASSES,
    "json.envelope.detection": _JAVA_CLASSES,
    "json.fail.unknown.properties": _JAVA_CLASSES,
    "json.indent.output": UnusedKey("kcli writes JSON as it is", "false"),
    "json.key.type": _JAVA_CLASSES,
    "json.oneof.for.nullables": _JAVA_CLASSES,
    "json.schema.scan.packages": _JAVA_CLASSES,
    "json.schema.spec.version": _JAVA_CLASSES,
    "json.type.allowed.packages": _JAVA_CLASSES,
    "json.value.type": _JAVA_CLASSES,
    "json.write.dates.iso8601": _JAVA_CLASSES,
    "type.property": _JAVA_CLASSES,
}  # fmt: skip
"""The keys of serializers and deserializers."""


def refuse(table: Mapping[str, UnusedKey], properties: Mapping[str, str], prefix: str = "") -> None:
    """Raises ConfigError for a refused key, unless its value asks for what kcli does. The keys may have the prefix."""
    for name, unused in table.items():
        for key in {name, f"{prefix}{name}"}:
            if unused.is_refused and _asks_for_more(unused, properties.get(key)):
                raise ConfigError(f"{key}: {unused.reason}", key=key)


def unused_keys(properties: Mapping[str, str], prefix: str) -> list[str]:
    """Returns a sentence for each key that has no effect and is not refused. The keys of a client may have the
    prefix."""
    table = {**CLIENT, **{f"{prefix}{name}": unused for name, unused in CLIENT.items()}, **SERDE}
    return [
        f"{name} has no effect: {unused.reason}"
        for name, text in properties.items()
        if (unused := table.get(name)) is not None and not unused.is_refused and _asks_for_more(unused, text)
    ]


def _asks_for_more(unused: UnusedKey, text: str | None) -> bool:
    return text is not None and trim(text).rpartition(".")[2].lower() != unused.usual

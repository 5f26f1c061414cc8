"""Keys of Confluent's registry that this registry does not have: most cause a warning, and some prevent the start."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from kcli.config.admin import ADMIN
from kcli.config.consumer import CONSUMER
from kcli.config.definition import ConfigError
from kcli.config.producer import PRODUCER
from kcli.model.java_text import trim
from kcli.registry.config.keys import OLD_NAMES, REGISTRY, TLS_KEYS

STORE_PREFIX = "kafkastore."
TOPIC_PREFIX = "kafkastore.topic.config."
LISTENER_PREFIX = "listener.name.https."

_NO_JETTY = "the HTTP server is not Jetty"
_REPORTERS = "metrics reporters are Java classes"
_ZOOKEEPER = "kcli needs no ZooKeeper"

NO_EFFECT: Mapping[str, str] = {
    "associations.enable": "the resource /associations answers 404, so that clients choose the subject themselves",
    "auto.include.jmx.reporter": _REPORTERS,
    "compression.enable": "responses are not compressed",
    "debug": "use the log levels of kcli",
    "enable.store.health.check": "/health always checks the reader of the topic",
    "idle.timeout.ms": _NO_JETTY,
    "kafkastore.checkpoint.dir": "the topic is read from its beginning at each start",
    "kafkastore.checkpoint.version": "the topic is read from its beginning at each start",
    "kafkastore.group.id": "the reader of the topic is in no group",
    "kafkastore.init.wait.for.reader": "a leader always reads the topic to its end first",
    "kafkastore.write.retry.backoff.ms": "Confluent's registry has ignored it since 2.0",
    "kafkastore.zk.session.timeout.ms": _ZOOKEEPER,
    "metadata.encoder.old.secret": "metadata is not encrypted",
    "metadata.encoder.secret.strict.validation": "metadata is not encrypted",
    "metadata.encoder.topic": "metadata is not encrypted",
    "metric.reporters": _REPORTERS,
    "metrics.jmx.prefix": "metrics have Confluent's default prefix",
    "metrics.num.samples": "metrics are counts since the start",
    "metrics.recording.level": _REPORTERS,
    "metrics.sample.window.ms": "metrics are counts since the start",
    "metrics.tag.map": _REPORTERS,
    "nosniff.prevention.enable": "each response has the header X-Content-Type-Options: nosniff",
    "request.logger.name": "use the log levels of kcli",
    "request.queue.capacity": _NO_JETTY,
    "request.queue.capacity.growby": _NO_JETTY,
    "request.queue.capacity.init": _NO_JETTY,
    "request.timeout.interrupt.enable": "a request is always ended at its limit of time",
    "schema.cache.expiry.secs": "a parsed schema stays in the cache until others need its place",
    "schema.canonicalize.on.consume": "schemas are returned as they are stored",
    "schema.providers.json.fetch.remote.schemas": "no schema is ever fetched from another server",
    "schema.registry.zk.namespace": _ZOOKEEPER,
    "shutdown.graceful.ms": "requests in progress have one second to end",
    "ssl.keymanager.algorithm": "it chooses a class of Java",
    "ssl.keystore.reload": "certificates are read at the start",
    "ssl.keystore.watch.location": "certificates are read at the start",
    "ssl.protocol": "use ssl.enabled.protocols",
    "ssl.provider": "it chooses a class of Java",
    "ssl.secure.random.implementation": "it chooses a class of Java",
    "ssl.trustmanager.algorithm": "it chooses a class of Java",
    "suppress.stack.trace.response": "no response has a stack trace",
    "thread.pool.max": _NO_JETTY,
    "thread.pool.min": _NO_JETTY,
    "websocket.path.prefix": "there are no WebSockets",
    "zookeeper.set.acl": _ZOOKEEPER,
}
"""Keys that are accepted and have no effect, with the reason. A registry warns about them if they are set."""

_NO_JAVA = "kcli loads no Java classes"
_PROTECTION = "this protection does not exist here, so a proxy must give it"

REFUSED: Mapping[str, str] = {
    "csrf.prevention.enable": _PROTECTION,
    "dos.filter.enabled": _PROTECTION,
    "enable.fips": "kcli has no FIPS mode",
    "init.resource.extension.class": f"{_NO_JAVA}. Use authentication.method and kcli.access.rules",
    "kafkastore.connection.url": f"{_ZOOKEEPER}. Use kafkastore.bootstrap.servers",
    "kafkastore.update.handlers": _NO_JAVA,
    "listener.protocol.map": "the only names of listeners are http and https",
    "metadata.encoder.secret": "sensitive metadata would be stored without encryption",
    "network.traffic.rate.limit.enable": _PROTECTION,
    "resource.extension.class": f"{_NO_JAVA}. Use authentication.method and kcli.access.rules",
    "resource.static.locations": "kcli serves no files",
    "rest.servlet.initializor.classes": _NO_JAVA,
    "schema.providers": f"{_NO_JAVA}. Avro, JSON Schema and Protobuf are built in",
    "schema.registry.resource.extension.class": f"{_NO_JAVA}. Use authentication.method and kcli.access.rules",
    "websocket.servlet.initializor.classes": _NO_JAVA,
}
"""Keys with which a registry does not start, because it would otherwise lack a protection or a part."""

_OFF = ("", "false")
_CLIENT_KEYS = {*PRODUCER, *CONSUMER, *ADMIN}
_KNOWN_PREFIXES = ("config.providers.", TOPIC_PREFIX)


def refuse(texts: Mapping[str, str]) -> None:
    """Raises ConfigError if a key of REFUSED is set."""
    for name, reason in REFUSED.items():
        if trim(texts.get(name, "")).lower() not in _OFF:
            raise ConfigError(f"{name} cannot be used: {reason}", key=name)


def warnings(texts: Mapping[str, str]) -> Iterator[str]:
    """Reports keys that are ignored, because a mistyped key would otherwise be noticed late."""
    for name, reason in NO_EFFECT.items():
        if name in texts:
            yield f"{name} has no effect: {reason}"
    for old, new in OLD_NAMES.items():
        if old in texts:
            yield f"{old} is an old name of {new}"
    for name in texts:
        if not _is_known(name):
            near = difflib.get_close_matches(name, REGISTRY, n=1, cutoff=0.85)
            hint = f". Did you mean {near[0]}?" if near else ""
            yield f"{name} is not a configuration key of a schema registry{hint}"


def _is_known(name: str) -> bool:
    if name in REGISTRY or name in NO_EFFECT or name in REFUSED or name in OLD_NAMES:
        return True
    if name.startswith(_KNOWN_PREFIXES) or name == "config.providers":
        return True
    if name.startswith(LISTENER_PREFIX):
        return name.removeprefix(LISTENER_PREFIX) in (
            *TLS_KEYS,
            "ssl.client.auth",
            "ssl.client.authentication",
        )
    return name.startswith(STORE_PREFIX) and name.removeprefix(STORE_PREFIX) in _CLIENT_KEYS

"""Keys of features that are not built. If such a key is set, the node logs a warning and ignores it, or refuses to
start.

If a missing feature only gives comfort or speed, its key is ignored with a warning. If a missing feature is a
protection, such as an encrypted listener, the node refuses to start.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from kcli.config.broker import BROKER, DYNAMIC_ONLY, NEWER, BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.group import REBALANCE_PROTOCOLS
from kcli.config.listener_config import ONLY_WITH_MECHANISM
from kcli.config.providers import PROVIDERS
from kcli.config.start_up import REMOVED, warnings

NOT_BUILT_PREFIXES: Mapping[str, str] = {
    prefix: feature
    for feature, prefixes in {
        "quota callbacks": ("client.quota.callback.class",),
        "quotas of replication": ("alter.log.dirs.replication.quota.window.",),
        "tiered storage": ("remote.", "rsm.config.", "rlmm.config.", "log.local.retention."),
        "replication between brokers": (
            "log.dir.failure.timeout.ms",
            "socket.connection.setup.",
        ),
        "a pause before records are appended to the metadata log": ("controller.quorum.append.",),
        "two-phase commit": ("transaction.two.phase.commit.enable",),
        "share groups": ("group.share.", "share.coordinator.", "share.fetch."),
        "streams groups": ("group.streams.",),
        "metrics reporters, which are Java classes": (
            "metric.reporters",
            "kafka.metrics.",
            "metrics.recording.level",
            "auto.include.jmx.reporter",
        ),
        "client telemetry": ("telemetry.",),
        "Java security providers": ("security.providers",),
    }.items()
    for prefix in prefixes
}
"""Missing features whose keys are ignored, by the prefix of these keys."""

_OF_NO_CONSEQUENCE = ("share.coordinator.state.topic.",)
"""Prefixes of keys that are ignored without a warning. Kafka's own server.properties sets these keys of share groups,
and a client that uses share groups gets an error anyway."""

ONE_LOOP = frozenset(
    {
        "background.threads",
        "delete.records.purgatory.purge.interval.requests",
        "fetch.purgatory.purge.interval.requests",
        "group.coordinator.threads",
        "num.io.threads",
        "num.network.threads",
        "producer.purgatory.purge.interval.requests",
    }
)
"""The keys of Kafka's thread pools and purgatories. They have no effect, because one event loop does this work."""

MUST_NOT_IGNORE: Mapping[str, str] = {
    "remote.log.storage.system.enable": "tiered storage",
}
"""Keys that protect data or set the place of data, with their missing features. If such a key is set, the node must not
start."""

# Keys that are not in Kafka's table of keys, because only plugins read them.
_PLUGIN_KEYS = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
_SCOPED = "listener.name."
_OF_SECURITY = ("ssl.", "sasl.", "principal.builder.", "connections.max.reauth.")
_NO_EFFECT: Mapping[str, str] = {
    "sasl.kerberos.kinit.cmd": "the library of Kerberos renews tickets itself",
    "sasl.kerberos.min.time.before.relogin": "the library of Kerberos renews tickets itself",
    "sasl.kerberos.ticket.renew.": "the library of Kerberos renews tickets itself",
    "sasl.login.refresh.": "a node gets a new token at each login",
    "sasl.login.connect.timeout.ms": "sasl.login.read.timeout.ms is the limit of each wait, also of the connection",
    "sasl.login.retry.": "a node chooses its own pauses between logins",
    "sasl.login.class": "a Java class cannot run here",
    "sasl.client.callback.handler.class": "a Java class cannot run here",
}
"""Keys of SASL that do nothing, by their prefix, with the reason."""
_MECHANISMS = frozenset({"gssapi", "oauthbearer", "plain", "scram-sha-256", "scram-sha-512"})
"""The prefixes of keys for one mechanism. As in Kafka, they are in lower case."""
_METRICS = "METRICS"
"""The name of the metrics endpoint in keys that are for one listener."""


def check_can_serve(config: BrokerConfig) -> None:
    """Raises ConfigError if a key needs a missing feature without which the node must not start."""
    for name, feature in MUST_NOT_IGNORE.items():
        if config.texts.get(name) and not _is_default(name, config):
            raise ConfigError(
                f"{name} is set, and what it asks for is not built yet ({feature}). "
                f"Remove {name} to start without",
                key=name,
                where=config.texts.where(name),
            )


def start_up_warnings(config: BrokerConfig) -> list[str]:
    """The warnings at start, with file and line. There is a warning for each key that is set twice or has no effect,
    and for each setting that is probably a mistake."""
    sentences = list(config.texts.repeated)
    for name in config.texts:
        said = _what_is_wrong_with(name, config)
        if said is not None:
            where = config.texts.where(name)
            sentences.append(f"{where}: {said}" if where else said)
    return sentences + warnings(config)


def feature_not_built(name: str) -> str | None:
    """The missing feature to which a key belongs. None if the key does not belong to a missing feature, or needs no
    warning."""
    if name.startswith(_OF_NO_CONSEQUENCE):
        return None
    for prefix, feature in NOT_BUILT_PREFIXES.items():
        if name.startswith(prefix):
            return feature
    return None


def _what_is_wrong_with(name: str, config: BrokerConfig) -> str | None:
    listener = name[len(_SCOPED) :].partition(".")[0] if name.startswith(_SCOPED) else None
    if listener is not None and listener not in _listeners(config):
        return f"{name} does nothing: there is no listener {listener}"
    base = _base_name(name)
    if name in REMOVED:
        return f"{name} was removed in Kafka 4 and does nothing; it was replaced by {REMOVED[name]}"
    if base.startswith(_OF_SECURITY) and base in BROKER:
        return None if _is_default(name, config) else _unused_security(name, base, config)
    if name in _PLUGIN_KEYS:
        there_is_one = bool(config.text("authorizer.class.name"))
        return None if there_is_one else f"{name} does nothing: there is no authorizer"
    feature = feature_not_built(base)
    if feature is not None:
        return None if _is_default(name, config) else f"{name} does nothing; not built yet: {feature}"
    if name == REBALANCE_PROTOCOLS and not _is_default(name, config):
        return _protocols_not_built(config.listed(name))
    if name in ONE_LOOP:
        return None if _is_default(name, config) else f"{name} does nothing: one event loop does this work"
    if name in NEWER:
        return f"{name} does nothing: it came after Kafka 4.1"
    if base not in BROKER and base not in DYNAMIC_ONLY and not name.startswith(PROVIDERS):
        return f"{name} is not a configuration key and does nothing{_guess(name, base)}"
    return None


def _unused_security(name: str, base: str, config: BrokerConfig) -> str | None:
    has_https = config.metrics_address is not None and config["kcli.metrics.protocol"] == "HTTPS"
    protocols = {listener.security_protocol for listener in config.listeners}
    protocols |= {
        config.security_protocols.get(name, "PLAINTEXT") for name in config.controller_listener_names
    }
    if protocols <= {"PLAINTEXT"} and not (has_https and base.startswith("ssl.")):
        return f"{name} does nothing: there is no SSL or SASL listener"
    if base in ONLY_WITH_MECHANISM and _without_listener(name) == base:
        return f"Server config {name} should be prefixed with SASL mechanism name, ignoring config"
    reason = next((why for prefix, why in _NO_EFFECT.items() if base.startswith(prefix)), None)
    return None if reason is None else f"{name} does nothing: {reason}"


def _listeners(config: BrokerConfig) -> set[str]:
    """The listeners that keys may name, in lower case. They include the controllers' listeners, because a broker uses
    the settings of these listeners to connect to controllers."""
    own = {listener.name for listener in config.listeners}
    return {name.lower() for name in (*own, *config.controller_listener_names, _METRICS)}


def _protocols_not_built(protocols: Iterable[str]) -> str | None:
    missing = [protocol for protocol in protocols if protocol in ("share", "streams")]
    if not missing:
        return None
    groups = " and ".join(f"{protocol} groups" for protocol in missing)
    return f"{REBALANCE_PROTOCOLS} names what is not built yet: {groups}"


def _base_name(name: str) -> str:
    """The name of a key without the prefixes `listener.name.<listener>.` and `<mechanism>.`."""
    rest = _without_listener(name)
    mechanism, _, base = rest.partition(".")
    return base if rest not in BROKER and mechanism in _MECHANISMS else rest


def _without_listener(name: str) -> str:
    return name[len(_SCOPED) :].partition(".")[2] if name.startswith(_SCOPED) else name


def _is_default(name: str, config: BrokerConfig) -> bool:
    """Whether a key is set to its default. Kafka's own configuration files set many keys to their defaults."""
    return name in BROKER and config[name] == BROKER.default(name)


def _guess(name: str, base: str) -> str:
    close = difflib.get_close_matches(base, list(BROKER), n=1, cutoff=0.85)
    return f"; did you mean {name.removesuffix(base)}{close[0]}?" if close else ""

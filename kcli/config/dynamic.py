"""Dynamic broker configs (KIP-226): the keys that may change without a restart, and the functions that a change calls.

There are four sources: the broker's own dynamic configs, the cluster's dynamic defaults, the broker's file, Kafka's
defaults. A value comes from the first source in this order that sets the key. The controller stores the dynamic configs
in the metadata. The broker checks each change before the controller stores the change. When the broker reads the stored
change in the metadata, the change takes effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kcli.config.broker import BROKER, DYNAMIC_ONLY, BrokerConfig
from kcli.config.definition import ConfigError, ConfigKey, UpdateMode, invalid_change
from kcli.config.describe import (
    BrokerLayers,
    ConfigEntry,
    base_name,
    broker_key,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from kcli.config.not_built import ONE_LOOP, feature_not_built
from kcli.config.security_keys import is_security_key, is_store_key
from kcli.config.start_up import check
from kcli.config.stored import usable
from kcli.config.topic import KAFKA_DEFAULTS, TOPIC, LogConfig
from kcli.errors import InvalidConfigurationException, InvalidRequestException
from kcli.model.java_order import hash_order_in_slices
from kcli.model.pace import Pace

_log = logging.getLogger(__name__)

Listener = Callable[[BrokerConfig, BrokerConfig], None]
"""Called with the configuration before and after a change."""

# The keys of key stores and trust stores. Kafka changes them only with a listener prefix.
_SECURITY_KEYS = frozenset(
    name
    for name in BROKER
    if name.startswith(("ssl.keystore.", "ssl.truststore.")) or name == "ssl.key.password"
)
_OF_RUNNING_LISTENERS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""The keys of a running network listener that Kafka can change, in addition to the keys of TLS."""

_NEEDS_RESTART = "Changing these configs without a restart is not built yet"
_THREAD_POOLS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


_CHECK_COST = 20
"""The cost of one check of a key, in microseconds."""
_LOOK_COST = 2
"""The cost to look at a key, in microseconds."""


class DynamicConfig:
    """The present configuration of a broker, and its layers."""

    def __init__(self, static: BrokerConfig) -> None:
        self.static = static
        self.current = static
        self.links = static
        """The configuration of the connections to other nodes. The only dynamic configs in this configuration are the
        TLS stores."""
        self.layers = BrokerLayers(static=dict(static.texts))
        self._listeners: list[Listener] = []
        self._checks: list[Callable[[BrokerConfig], None]] = []
        self._limits: list[Callable[[BrokerConfig, BrokerConfig], None]] = []
        self._preparations: list[Callable[[BrokerConfig], None]] = []
        self._log_defaults = LogConfig.resolve({}, static)
        self._ignored: tuple[str, ...] = ()
        self._usable_default: Mapping[str, str] = {}
        self._usable_own: Mapping[str, str] = {}

    def subscribe(self, listener: Listener) -> None:
        """Adds a listener: `listener(before, after)` runs after each change of values, in order of subscription."""
        self._listeners.append(listener)

    def check_with(
        self, checks: Callable[[BrokerConfig], None], prepares: Callable[[BrokerConfig], None]
    ) -> None:
        """Adds a check of a part of the node: `checks(after)` raises ConfigError if this part cannot apply the changed
        configuration. `prepares(after)` does the slow work of the check, and may run in a thread."""
        self._checks.append(checks)
        self._preparations.append(prepares)

    def limit_with(self, limits: Callable[[BrokerConfig, BrokerConfig], None]) -> None:
        """Adds a check of values: `limits(static, after)` raises ConfigError if a part of the node cannot work with
        `after`. A stored value is checked too, before the node applies it."""
        self._limits.append(limits)

    def _check_limits(self, after: BrokerConfig) -> None:
        for limits in self._limits:
            limits(self.static, after)

    def update(self, *, default: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Applies the metadata's configs for the cluster (`default`) and for this broker (`own`).

        A stored value that this broker cannot apply is logged and skipped, because another release may have stored it.
        A node that stopped at such a value would never start again. Keys that this broker never changes while it runs
        are skipped too.
        """
        self.layers = BrokerLayers(own, default, self.layers.static)
        self._warn_of_ignored({**default, **own})
        before, self.current = self.current, self._applicable(_usable(default), _usable(own))
        stored = {**self._usable_default, **self._usable_own}
        stores = {name: text for name, text in stored.items() if is_store_key(name)}
        self.links = self.static.replaced(stores)
        self._log_defaults = LogConfig.resolve({}, self.current)
        if dict(before) != dict(self.current) or dict(before.texts) != dict(self.current.texts):
            for listener in self._listeners:
                _notify(listener, before, self.current)

    def _applicable(self, default: dict[str, str], own: dict[str, str]) -> BrokerConfig:
        """The configuration with the stored configs, without those that do not fit to the other keys."""
        while True:
            self._usable_default, self._usable_own = default, own
            try:
                after = self.static.replaced({**default, **own})
                check(after)
                self._check_limits(after)
            except ConfigError as error:
                bad = {name for name in (*default, *own) if error.key in (name, base_name(name))}
                _log.error(
                    "Stored dynamic configs are not applied, the broker's file or Kafka's defaults take their place: "
                    "%s: %s",
                    ", ".join(sorted(bad or {*default, *own})),
                    error.message,
                )
                if not default and not own:
                    return self.static
                default = {name: text for name, text in default.items() if bad and name not in bad}
                own = {name: text for name, text in own.items() if bad and name not in bad}
            else:
                return after

    async def validate(self, overrides: Mapping[str, str], pace: Pace, *, own: bool) -> None:
        """Checks all dynamic configs as they will be after a change.

        If `own` is True, `overrides` are the configs of this broker. Otherwise they are the defaults of the cluster.

        Raises InvalidRequestException with Kafka's text.
        """
        try:
            names = await hash_order_in_slices(overrides, pace, _CHECK_COST)
            await _check_listeners(overrides, self.static, pace)
            await _check_names(names, pace, own=own)
            known = await _parsed(names, overrides, pace)
            fixed = await _fixed(names, pace)
            after = self._after(known, own=own)
            check(after)
            try:
                _check_threads(self.current, after)
                self._check_limits(after)
            except ConfigError as error:
                raise invalid_change(error.message, error.key) from None
            for checks in self._checks:
                checks(after)
            # Here the running listeners have already refused the keys of TLS that they cannot apply, with their own
            # texts.
            _refuse(_NEEDS_RESTART, fixed)
        except ConfigError as error:
            raise InvalidRequestException(error.message) from None
        await _warn_of_features_not_built(overrides, pace)

    async def validate_values(self, changed: Mapping[str, str], pace: Pace) -> None:
        """Checks the new values of some keys. The controller has no more to check, because it does not have the files
        of the brokers. Raises InvalidRequestException with Kafka's text."""
        try:
            known = await _parsed(changed, changed, pace)
            after = self.static.replaced({**self._usable_default, **self._usable_own, **known})
            check(after)
            try:
                self._check_limits(after)
            except ConfigError as error:
                raise invalid_change(error.message, error.key) from None
        except ConfigError as error:
            raise InvalidRequestException(error.message) from None

    async def preparation(
        self, overrides: Mapping[str, str], pace: Pace, *, own: bool
    ) -> Callable[[], None] | None:
        """Returns a function that does the slow work of `validate` with the same arguments. The function may run in a
        thread. Returns None if no TLS store changes, because `validate` is then fast."""
        changes = False
        known = {}
        for name, text in overrides.items():
            await pace(_LOOK_COST)
            changes = changes or (is_store_key(name) and self.current.texts.get(name) != text)
            if broker_key(name) is not None:
                known[name] = text
        if not changes:
            return None
        try:
            after = self._after(known, own=own)
        except ConfigError:
            return None  # `validate` reports the error
        return partial(self._prepare, after)

    def _prepare(self, after: BrokerConfig) -> None:
        for prepare in self._preparations:
            prepare(after)

    def _after(self, overrides: Mapping[str, str], *, own: bool) -> BrokerConfig:
        """The configuration after a change of the dynamic configs of this broker, or of the cluster. Raises
        ConfigError."""
        if own:
            return self.static.replaced({**self._usable_default, **overrides})
        return self.static.replaced({**overrides, **self._usable_own})

    def _warn_of_ignored(self, stored: Mapping[str, str]) -> None:
        ignored = tuple(name for name in stored if _is_fixed(name))
        if ignored and ignored != self._ignored:
            _log.warning(
                "These stored dynamic configs are ignored, because this broker reads them only from its file: %s",
                ", ".join(ignored),
            )
        self._ignored = ignored

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """The configuration of a log whose topic has these overrides, with the present broker values as defaults."""
        try:
            return self._log_defaults.overridden(overrides)
        except ConfigError:
            return self._log_defaults.overridden(usable(TOPIC, overrides))

    def describe_topic(self, overrides: Mapping[str, str]) -> tuple[ConfigEntry, ...]:
        return describe_topic(overrides, self.layers, self.current)

    def describe_broker(self) -> tuple[ConfigEntry, ...]:
        return describe_broker(self.layers, self.current)

    def describe_broker_defaults(self) -> tuple[ConfigEntry, ...]:
        return describe_broker_defaults(self.layers)

    def describe_group(self, overrides: Mapping[str, str]) -> tuple[ConfigEntry, ...]:
        return describe_group(overrides, self.current)

    def describe_client_metrics(self, overrides: Mapping[str, str]) -> tuple[ConfigEntry, ...]:
        return describe_client_metrics(overrides)


def is_dynamic(name: str) -> bool:
    """Whether Kafka can change a key without a restart. True for an unknown key, because a plugin may read the key.

    An unknown security key is not dynamic. For example, it may have the prefix of a mechanism, such as
    `plain.sasl.jaas.config`. A node reads such a key when it logs in to other nodes.
    """
    key = broker_key(name)
    if key is None:
        return not is_security_key(name)
    return base_name(name) in DYNAMIC_ONLY or key.update_mode is not UpdateMode.READ_ONLY


def validate_topic_overrides(overrides: Mapping[str, str | None], *, remote_storage: bool = False) -> None:
    """Checks the overrides that a topic would have. Raises InvalidConfigurationException with Kafka's text."""
    nulls = [name for name, value in overrides.items() if value is None]
    if nulls:
        raise InvalidConfigurationException(f"Null value not supported for topic configs: {','.join(nulls)}")
    texts = {name: value for name, value in overrides.items() if value is not None}
    for name in texts:
        if name not in TOPIC:
            raise InvalidConfigurationException(f"Unknown topic config name: {name}")
    try:
        config = KAFKA_DEFAULTS.overridden(texts)
    except ConfigError as error:
        raise InvalidConfigurationException(error.message) from None
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise InvalidConfigurationException(
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
        )
    if config.remote_storage_enable and not remote_storage:
        raise InvalidConfigurationException(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


async def _check_names(names: list[str], pace: Pace, *, own: bool) -> None:
    fixed, security, per_broker, needs_restart = [], [], [], []
    for name in names:
        await pace(_CHECK_COST)
        if not is_dynamic(name):
            fixed.append(name)
        if name in _SECURITY_KEYS:
            security.append(name)
        if _per_broker(broker_key(name)):
            per_broker.append(name)
        # The running listeners check keys of TLS first, because Kafka has separate texts for these keys.
        if _is_fixed(name) and not base_name(name).startswith("ssl."):
            needs_restart.append(name)
    _refuse("Cannot update these configs dynamically", fixed)
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        security,
        kind="HashSet",
    )
    if not own:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified", per_broker
        )
    _refuse(_NEEDS_RESTART, needs_restart)


async def _check_listeners(overrides: Mapping[str, str], config: BrokerConfig, pace: Pace) -> None:
    """Raises ConfigError, with Kafka's text, for a new value of a listener's key that is fixed while the listener runs.

    This function does not check the keys of TLS. The running listeners check them, because some of these keys may
    change.
    """
    for listener in config.listeners:
        prefix = f"listener.name.{listener.name.lower()}."
        for name in overrides:
            await pace(_CHECK_COST)
            base = name.removeprefix(prefix)
            is_fixed = (
                name.startswith(prefix) and not base.startswith("ssl.") and base not in _OF_RUNNING_LISTENERS
            )
            if is_fixed and overrides[name] != config.texts.get(name):
                raise ConfigError(
                    f"Configs cannot be updated dynamically for existing listener ListenerName({listener.name}), "
                    "restart broker or create a new listener for update"
                )


async def _fixed(names: Iterable[str], pace: Pace) -> list[str]:
    fixed = []
    for name in names:
        await pace(_CHECK_COST)
        if _is_fixed(name):
            fixed.append(name)
    return fixed


def _is_fixed(name: str) -> bool:
    """Whether this broker never changes the key while it runs, although Kafka can change some of these keys. They are
    keys of listeners and of security, except the TLS stores of a listener."""
    return not is_store_key(name) and (is_security_key(name) or _per_broker(broker_key(name)))


def _per_broker(key: ConfigKey | None) -> bool:
    return key is not None and key.update_mode is UpdateMode.PER_BROKER


def _refuse(message: str, names: Iterable[str], kind: str = "Set") -> None:
    """Raises ConfigError if `names` is not empty. Kafka's text contains `kind`, the name of a Scala class."""
    listed = ", ".join(names)
    if listed:
        raise ConfigError(f"{message}: {kind}({listed})")


async def _parsed(names: Iterable[str], overrides: Mapping[str, str], pace: Pace) -> dict[str, str]:
    """The overrides of keys that Kafka knows. The broker uses no other key. Raises ConfigError for an invalid value."""
    known = {}
    for name in names:
        await pace(_CHECK_COST)
        key = broker_key(name)
        if key is not None:
            key.parse(overrides[name])
            known[name] = overrides[name]
    return known


def _check_threads(before: BrokerConfig, after: BrokerConfig) -> None:
    """Raises ConfigError if a change makes a thread pool smaller than half its size or larger than twice its size.
    Kafka refuses such a change too."""
    for name in _THREAD_POOLS:
        old, new = before.integer(name), after.integer(name)
        failed = f"Dynamic thread count update validation failed for {name}={new}"
        if new < old // 2:
            raise ConfigError(f"{failed}, value should be at least half the current value {old}", key=name)
        if new > old * 2:
            raise ConfigError(
                f"{failed}, value should not be greater than double the current value {old}", key=name
            )
    old, new = before.integer("log.cleaner.threads"), after.integer("log.cleaner.threads")
    if new < 1:
        raise ConfigError("Log cleaner threads should be at least 1", key="log.cleaner.threads")
    if new < old // 2:
        raise ConfigError(
            f"Log cleaner threads cannot be reduced to less than half the current value {old}",
            key="log.cleaner.threads",
        )
    if new > old * 2:
        raise ConfigError(
            f"Log cleaner threads cannot be increased to more than double the current value {old}",
            key="log.cleaner.threads",
        )


def _notify(listener: Listener, before: BrokerConfig, after: BrokerConfig) -> None:
    """Calls a listener. If it fails, the other parts of the broker still get the change, and the broker runs on."""
    try:
        listener(before, after)
    except Exception as error:
        _log.error(
            "A part of the broker keeps its old configuration, because it failed on the new one: %r", error
        )


def _usable(stored: Mapping[str, str]) -> dict[str, str]:
    """The stored configs that this broker can apply."""
    usable = {}
    for name, text in stored.items():
        key = broker_key(name)
        if key is None or _is_fixed(name):
            continue  # the broker does not use a key that Kafka does not know
        try:
            key.parse(text)
        except ConfigError as error:
            _log.error("A stored dynamic config is not applied: %s", error.message)
            continue
        if is_dynamic(name):
            usable[name] = text
        else:
            _log.error("A stored dynamic config is not applied: %s cannot change without a restart", name)
    return usable


async def _warn_of_features_not_built(overrides: Mapping[str, str], pace: Pace) -> None:
    for name in overrides:
        await pace(_CHECK_COST)
        feature = feature_not_built(base_name(name))
        if feature is not None:
            _log.warning("%s is stored and does nothing; not built yet: %s", name, feature)
        elif name in ONE_LOOP:
            _log.warning("%s is stored and does nothing: one event loop does this work", name)

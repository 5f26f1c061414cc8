"""The security keys of one listener.

In these rules, M is the name of a mechanism and L the name of a listener, both in lower case:

- `listener.name.L.K` takes precedence over `K`, for every key K;
- keys in ONLY_WITH_MECHANISM are read as `M.K` only;
- keys that begin with a prefix in MECHANISM_FIRST are read as `M.K`, and as `K` if `M.K` is not set.

The values of other keys are the same for all mechanisms.
"""

from __future__ import annotations

from kcli.config.broker import BROKER, BrokerConfig
from kcli.config.definition import ConfigError, ConfigValue

ONLY_WITH_MECHANISM = frozenset(
    {
        "sasl.jaas.config",
        "sasl.server.callback.handler.class",
        "sasl.login.class",
        "sasl.login.callback.handler.class",
    }
)
MECHANISM_FIRST = ("connections.max.reauth.ms", "sasl.oauthbearer.")


class ListenerConfig:
    """The values that keys have for one listener. Each value is parsed by the definition of its key."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        self.config = config
        self.listener = listener
        self._prefix = f"listener.name.{listener.lower()}."

    def key_of(self, name: str, mechanism: str | None = None) -> str | None:
        """The full name of the property that gives the value of the key `name`. None if no such property is set, so
        that the key has its default."""
        names = [name]
        if mechanism is not None:
            with_mechanism = f"{mechanism.lower()}.{name}"
            if name in ONLY_WITH_MECHANISM:
                names = [with_mechanism]
            elif name.startswith(MECHANISM_FIRST):
                names = [with_mechanism, name]
        texts = self.config.texts
        scoped = next(
            (self._prefix + candidate for candidate in names if self._prefix + candidate in texts), None
        )
        return scoped or next((candidate for candidate in names if candidate in texts), None)

    def value(self, name: str, mechanism: str | None = None) -> ConfigValue:
        """The value of the key `name`. Raises ConfigError if the text is invalid."""
        key = self.key_of(name, mechanism)
        return BROKER.default(name) if key is None else BROKER[name].parse(self.config.texts[key])

    def text(self, name: str, mechanism: str | None = None) -> str | None:
        """The value of a string or password key."""
        value = self.value(name, mechanism)
        assert value is None or isinstance(value, str), f"{name} is not a string"
        return value

    def listed(self, name: str, mechanism: str | None = None) -> tuple[str, ...]:
        """The items of a list key. There are no items if the value is null."""
        value = self.value(name, mechanism)
        assert value is None or isinstance(value, tuple), f"{name} is not a list"
        return value or ()

    def boolean(self, name: str, mechanism: str | None = None) -> bool:
        value = self.value(name, mechanism)
        assert isinstance(value, bool), f"{name} is not a boolean"
        return value

    def blamed(self, error: ConfigError) -> ConfigError:
        """The same error with the full name of its key for this listener, and with the place of the key."""
        key = self.key_of(error.key) or error.key if error.key else None
        return self.config.texts.blamed(ConfigError(error.message, key=key, where=error.where))

    def refusal(self, name: str, message: str, mechanism: str | None = None) -> ConfigError:
        """An error about the value of a key, with the place of the key in the properties."""
        key = self.key_of(name, mechanism) or name
        return ConfigError(message, key=key, where=self.config.texts.where(key))

    def integer(self, name: str, mechanism: str | None = None) -> int:
        value = self.value(name, mechanism)
        assert isinstance(value, int), f"{name} is not an integer"
        return value

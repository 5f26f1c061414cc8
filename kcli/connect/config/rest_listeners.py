"""The listeners of the REST server, and the address under which other workers find it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.config.definition import ConfigError, ConfigValue
from kcli.http.rest.listeners import RestListener, rest_listener, ssl_properties
from kcli.model.addresses import Address
from kcli.model.java_text import split_list, trim

HTTPS_PREFIX = "listeners.https."
ADMIN_HTTPS_PREFIX = "admin.listeners.https."
BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
"""The only REST extension. Others are Java classes, and may be a protection, so that a worker must not ignore them."""


@dataclass(frozen=True, slots=True)
class RestConfig:
    """`admin_listeners` is None if /admin is on the main listeners. An empty list means that there is no /admin.

    `ssl` and `admin_ssl` have the keys `ssl.*` of the TLS listeners.
    """

    listeners: Sequence[RestListener]
    admin_listeners: Sequence[RestListener] | None
    advertised_listener: str | None
    advertised_host: str | None
    advertised_port: int | None
    allow_origin: Sequence[str]
    allow_methods: Sequence[str]
    response_headers: str
    extension_classes: Sequence[str]
    ssl: Mapping[str, str]
    admin_ssl: Mapping[str, str]

    def advertised_url(self, addresses: Sequence[Address], local_host: str) -> str:
        """The URL under which other workers find this one, such as `http://host:8083/`.

        `addresses` are those of `listeners`, with the ports that the system chose. `local_host` is the address of this
        machine, for a listener on every interface. Raises ConfigError if the URL would have no port.
        """
        scheme = self.advertised_listener or ("http" if self._has("http") else "https")
        bound = next(
            (
                address
                for listener, address in zip(self.listeners, addresses, strict=True)
                if listener.scheme == scheme
            ),
            None,
        )
        host = self.advertised_host or (bound.host if bound else "") or local_host
        port = self.advertised_port if self.advertised_port is not None else bound and bound.port
        if port is None:
            raise ConfigError(
                f"rest.advertised.listener is {scheme}, but no listener of listeners has this protocol, and "
                "rest.advertised.port is not set",
                key="rest.advertised.listener",
            )
        return f"{scheme}://{Address(host, port)}/"

    def _has(self, scheme: str) -> bool:
        return any(listener.scheme == scheme for listener in self.listeners)


def rest_config(texts: Mapping[str, str], values: Mapping[str, ConfigValue]) -> RestConfig:
    """The settings of the REST server from the parsed `values`. `texts` also have the keys with a prefix.

    Raises ConfigError for a URL that is no listener, and for an unknown extension.
    """
    admin = values["admin.listeners"]
    advertised = _text(values["rest.advertised.listener"])
    port = values["rest.advertised.port"]
    return RestConfig(
        listeners=_listeners(values["listeners"]),
        admin_listeners=None if admin is None else _listeners(admin),
        advertised_listener=advertised.lower() if advertised else None,
        advertised_host=_text(values["rest.advertised.host.name"]) or None,
        advertised_port=port if isinstance(port, int) else None,
        allow_origin=_items(values["access.control.allow.origin"]),
        allow_methods=_items(values["access.control.allow.methods"]),
        response_headers=_text(values["response.http.headers.config"]) or "",
        extension_classes=tuple(
            _extension(name) for name in _names(values["rest.extension.classes"]) if name
        ),
        ssl=ssl_properties(texts, HTTPS_PREFIX),
        admin_ssl=ssl_properties(texts, ADMIN_HTTPS_PREFIX),
    )


def _listeners(urls: ConfigValue) -> Sequence[RestListener]:
    return tuple(rest_listener(url) for url in _names(urls))


def _extension(name: str) -> str:
    if name not in (BASIC_AUTH, BASIC_AUTH.rpartition(".")[2]):
        raise ConfigError(
            f"Failed to find any class that implements ConnectRestExtension and which name matches {name}; "
            f"the only extension is {BASIC_AUTH}",
            key="rest.extension.classes",
        )
    return BASIC_AUTH


def _text(value: ConfigValue) -> str | None:
    assert value is None or isinstance(value, str)
    return None if value is None else trim(value)


def _names(value: ConfigValue) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


def _items(value: ConfigValue) -> tuple[str, ...]:
    return tuple(item for item in split_list(_text(value) or "") if item)

"""Makes the settings of the REST server from the configuration of a worker: TLS, logins, headers."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping, Sequence

from kcli.config.broker_keys import BROKER
from kcli.config.definition import ConfigError
from kcli.config.environment import jaas_file
from kcli.config.properties import load
from kcli.connect.config.rest_listeners import RestConfig, RestListener
from kcli.connect.config.worker import WorkerConfig
from kcli.connect.rest.basic_auth import BasicAuth
from kcli.connect.rest.response_headers import Cors, HeaderRule, ResponseHeaders
from kcli.connect.rest.server import Listener, RestSettings
from kcli.security.jaas import JaasError, login_sections
from kcli.security.tls.contexts import client_tls, context_of_server, stores_of
from kcli.security.tls.settings import store_settings

JAAS_SECTION = "KafkaConnect"


def rest_settings(config: WorkerConfig) -> RestSettings:
    """Raises ConfigError if a store, a header or the file of users is invalid."""
    rest = config.rest
    return RestSettings(
        listeners=[_listener(one, rest.ssl) for one in rest.listeners],
        admin_listeners=None
        if rest.admin_listeners is None
        else [_listener(one, rest.admin_ssl) for one in rest.admin_listeners],
        tracks_topics=config.topic_tracking_enable,
        allows_reset=config.topic_tracking_allow_reset,
        headers=ResponseHeaders(
            HeaderRule.parse(rest.response_headers), Cors(rest.allow_origin, rest.allow_methods)
        ),
        check=BasicAuth(basic_auth_users()).check if rest.extension_classes else None,
        forwarding_tls=_client_context(rest) if any(one.is_https for one in rest.listeners) else None,
    )


def _listener(listener: RestListener, properties: Mapping[str, str]) -> Listener:
    if not listener.is_https:
        return Listener(listener.host or None, listener.port)
    context = context_of_server(
        stores_of(store_settings(_look_up(properties)), "listeners"),
        client_auth=properties.get("ssl.client.auth", "none"),
        protocols=_listed(properties, "ssl.enabled.protocols"),
        ciphers=_listed(properties, "ssl.cipher.suites"),
    )
    return Listener(listener.host or None, listener.port, lambda: context)


def _client_context(rest: RestConfig) -> ssl.SSLContext:
    """The context for requests to other workers, which trusts the same certificates."""
    return client_tls(_look_up(rest.ssl)).context()


def _look_up(properties: Mapping[str, str]) -> Callable[[str], str | None]:
    def look_up(name: str) -> str | None:
        text = properties.get(name)
        value = BROKER[name].parse(text) if text is not None else BROKER.default(name)
        return ",".join(value) if isinstance(value, tuple) else None if value is None else str(value)

    return look_up


def _listed(properties: Mapping[str, str], name: str) -> Sequence[str]:
    text = properties.get(name)
    value = BROKER.default(name) if text is None else BROKER[name].parse(text)
    return value if isinstance(value, tuple) else ()


def basic_auth_users(environment: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """The users of the section KafkaConnect in the JAAS file, by PropertyFileLoginModule's option `file`.

    Raises ConfigError if the section or a file is missing. An empty file means that each login is accepted.
    """
    path = jaas_file(os.environ if environment is None else environment)
    if path is None:
        raise ConfigError(
            f"the REST extension for HTTP Basic needs a JAAS file with the section {JAAS_SECTION}: set KAFKA_OPTS to "
            "-Djava.security.auth.login.config=FILE"
        )
    try:
        with open(path, encoding="utf-8") as file:
            modules = login_sections(file.read()).get(JAAS_SECTION, ())
        files = [module.options.get("file", "") for module in modules]
        if not any(files):
            raise ConfigError(
                f"{path} has no section {JAAS_SECTION} with a login module that has the option file"
            )
        users: dict[str, str] = {}
        for name in filter(None, files):
            users |= load(name)
    except (OSError, JaasError) as error:
        raise ConfigError(f"cannot read the users of the REST API from {path}: {error}") from None
    return users

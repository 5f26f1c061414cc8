"""Creates the admin client of a tool from `--bootstrap-server`, `--command-config` and `--timeout`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.client_properties import load_properties
from kcli.cli.missing_rights import watch
from kcli.cli.output import warn
from kcli.cli.script_form import is_kafkas_script
from kcli.cli.syntax.options import CallingOptions, CommandError, did_you_mean, option
from kcli.client.admin.admin import AdminClient
from kcli.client.config import ClientConfig, ClientConfigError, SecuritySettingsError, client_config

if TYPE_CHECKING:
    from kcli.config.properties import Properties


NO_CLIENT = "Failed to create new KafkaAdminClient"
"""The error of Kafka's tools if no admin client can be created. The reason follows on the next line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions(CallingOptions):
    """The options of nearly every tool that talks to brokers."""

    bootstrap_server: str | None = option(
        "The brokers to connect to first, as host:port,host:port.", metavar="server to connect to"
    )
    command_config: str | None = option(
        "A properties file with settings of the admin client.", metavar="command config property file"
    )


def admin(
    options: ClusterOptions,
    *,
    client_id: str | None = None,
    bootstrap_controller: str | None = None,
    defaults: Mapping[str, str] | None = None,
) -> AdminClient:
    """Creates an admin client for the cluster that the options name. The client connects at the first call.

    `defaults` are settings of the tool, which the user's settings override. Raises CommandError with the name of the
    file for an invalid setting.
    """
    config = admin_config(
        options, client_id=client_id, bootstrap_controller=bootstrap_controller, defaults=defaults
    )
    _refuse_unresolvable(config)
    return AdminClient(config, on_answer=watch(config), waits_for_partitions=is_kafkas_script())


def admin_config(
    options: ClusterOptions,
    *,
    client_id: str | None = None,
    bootstrap_controller: str | None = None,
    defaults: Mapping[str, str] | None = None,
) -> ClientConfig:
    """The settings of an admin client. Raises CommandError with the name of the file for an invalid setting."""
    properties = load_properties(options.command_config, options.client_properties)
    _check_settings(properties)
    for name, text in (defaults or {}).items():
        properties.setdefault(name, text)
    try:
        return client_config(
            properties,
            bootstrap_servers=options.bootstrap_server,
            bootstrap_controllers=bootstrap_controller,
            client_id=client_id,
            api_timeout_ms=options.timeout,
        )
    except SecuritySettingsError as error:
        raise CommandError(f"{NO_CLIENT}\nCaused by: {error}") from error
    except ClientConfigError as error:
        raise CommandError(str(error)) from error


def _check_settings(properties: Properties) -> None:
    """Refuses invalid values of settings, and warns about settings that an admin client does not have or use."""
    if not properties:
        return
    from kcli.config.admin import ADMIN
    from kcli.config.definition import ConfigError
    from kcli.security.client import unused_settings

    for name, text in properties.items():
        where = properties.where(name)
        if name in ADMIN:
            try:
                ADMIN[name].parse(text)
            except ConfigError as error:
                raise CommandError(f"{error} ({where})") from error
        elif not _is_another_programs(name):
            hint = did_you_mean(name, list(ADMIN))
            warn(" ".join(filter(None, (f"WARN {where}: ignored the unknown setting {name}.", hint))))
    for name in unused_settings(properties):
        warn(f"WARN {properties.where(name)}: {name} has no effect in kcli.")


def _is_another_programs(name: str) -> bool:
    """Whether a producer, consumer or broker has the setting.

    The user may use the same properties file for several programs.
    """
    from kcli.config.broker_keys import BROKER
    from kcli.config.consumer import CONSUMER
    from kcli.config.producer import PRODUCER

    return any(name in known for known in (PRODUCER, CONSUMER, BROKER))


def _refuse_unresolvable(config: ClientConfig) -> None:
    """Raises CommandError if no server name can be resolved. Java's client makes the same check.

    Without this check, kcli's admin client would try again until its timeout.
    """
    import socket

    reasons = []
    for server in config.servers:
        try:
            socket.getaddrinfo(server.host, server.port)
            return
        except socket.gaierror as error:
            reasons.append(f"{server.host}: {error.strerror}")
        except UnicodeError:
            reasons.append(f"{server.host}: not a host name")
    where = "bootstrap.controllers" if config.servers_are_controllers else "bootstrap.servers"
    raise CommandError(f"No resolvable bootstrap urls given in {where} ({'; '.join(reasons)})")

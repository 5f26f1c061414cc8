"""How a tool reaches the cluster: `--bootstrap-server`, `--command-config`, `--timeout` into an admin client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.options import CallingOptions, CommandError, option
from kcli.client.admin import AdminClient
from kcli.client.config import ClientConfig, ClientConfigError, client_config

if TYPE_CHECKING:
    from kcli.config.properties import Properties


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions(CallingOptions):
    """The options of nearly every tool that talks to brokers."""

    bootstrap_server: str | None = option(
        "Brokers to ask first, as host:port,host:port.", metavar="server to connect to"
    )
    command_config: str | None = option(
        "A properties file with settings of the admin client.", metavar="command config property file"
    )


def admin_config(
    options: ClusterOptions, *, client_id: str | None = None, bootstrap_controller: str | None = None
) -> ClientConfig:
    """The client settings that the options ask for. Raises CommandError, naming the file that cannot be read."""
    from kcli.config.definition import ConfigError

    try:
        return client_config(
            load_properties(options.command_config, options.client_properties),
            bootstrap_servers=options.bootstrap_server,
            bootstrap_controllers=bootstrap_controller,
            client_id=client_id,
            api_timeout_ms=options.timeout,
        )
    except (ClientConfigError, ConfigError) as error:
        raise CommandError(str(error)) from error


def load_properties(path: str | None, profile: Mapping[str, str] | None = None) -> Properties:
    """The properties of a file over those of the profile. A missing file is told by its path alone, as Java does."""
    from kcli.config.definition import ConfigError
    from kcli.config.properties import Properties, load

    properties = Properties(profile or {})
    if path is None:
        return properties
    try:
        properties.update_from(load(path), where=path)
        return properties
    except FileNotFoundError as error:
        raise CommandError(path) from error
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    except ConfigError as error:
        raise CommandError(error.located()) from error


def admin(options: ClusterOptions, *, client_id: str | None = None) -> AdminClient:
    """An admin client for the cluster that the options name; it connects at the first call."""
    return AdminClient(admin_config(options, client_id=client_id))

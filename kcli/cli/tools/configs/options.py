"""The options of kafka-configs, the entity that they name, and the rules that say which options may be combined."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.connect import ClusterOptions
from kcli.cli.syntax.options import CommandError, UsageError, flag, forbid, option
from kcli.model.java_text import parse_int

TOPICS, CLIENTS, USERS, BROKERS, IPS = "topics", "clients", "users", "brokers", "ips"
CLIENT_METRICS, GROUPS, BROKER_LOGGERS = "client-metrics", "groups", "broker-loggers"
# The entity types, in the order in which Kafka 4.1 lists them.
ENTITY_TYPES = (TOPICS, CLIENTS, USERS, BROKERS, IPS, CLIENT_METRICS, GROUPS, BROKER_LOGGERS)
WITH_DEFAULTS = (USERS, CLIENTS, BROKERS, IPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsOptions(ClusterOptions):
    bootstrap_controller: str | None = option(
        "The controllers to connect to first, as host:port,host:port.", metavar="controller to connect to"
    )
    alter: bool = flag("Change settings.")
    describe: bool = flag("Show settings.")
    all: bool = flag("With --describe: also show static settings and defaults.")
    entity_type: tuple[str, ...] = option(
        f"The type of the entity: {', '.join(ENTITY_TYPES)}.", metavar="type", repeatable=True
    )
    entity_name: tuple[str, ...] = option(
        "The name of the entity. If you give several --entity-type options, give a name for each of these "
        "types, in the same order.",
        metavar="name",
        repeatable=True,
    )
    entity_default: bool = flag(
        "In place of --entity-name: the default settings of all users, clients, brokers or ips."
    )
    topic: str | None = option("The name of a topic.", metavar="topic")
    client: str | None = option("The client id of clients.", metavar="client-id")
    user: str | None = option("The principal name of a user.", metavar="user")
    broker: str | None = option("The id of a broker.", metavar="broker")
    broker_logger: str | None = option(
        "The id of a broker whose log levels are shown or changed.", metavar="broker"
    )
    ip: str | None = option("An IP address.", metavar="ip")
    client_metrics: str | None = option("The name of a client metrics subscription.", metavar="name")
    group: str | None = option("The id of a group.", metavar="group")
    client_defaults: bool = flag("The default settings of all clients.")
    user_defaults: bool = flag("The default settings of all users.")
    broker_defaults: bool = flag("The default settings of all brokers.")
    ip_defaults: bool = flag("The default settings of all IP addresses.")
    add_config: str | None = option(
        "The settings to add or change, as k=v,k=[v1,v2]. Put brackets around a value that contains commas.",
        metavar="k1=v1,k2=[v1,v2]",
    )
    add_config_file: str | None = option("A properties file with settings to add or change.", metavar="file")
    delete_config: tuple[str, ...] = option(
        "The names of the settings to remove, separated by commas.", metavar="k1,k2", repeatable=True
    )
    dry_run: bool = flag("With --alter: the cluster checks the change, but does not make it.")


@dataclass(frozen=True, slots=True)
class Entity:
    """The entity to configure: its types and, in the same order, their names.

    An empty name means the default entity. If there are no names, the options select all entities of the types.
    """

    types: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def type(self) -> str:
        return self.types[0]

    @property
    def name(self) -> str | None:
        return self.names[0] if self.names else None


# Short options with their entity types, in Kafka's order: first for one entity, then for the default entity.
_SHORTHANDS = (
    ("topic", TOPICS),
    ("client", CLIENTS),
    ("user", USERS),
    ("broker", BROKERS),
    ("broker-logger", BROKER_LOGGERS),
    ("ip", IPS),
    ("client-metrics", CLIENT_METRICS),
    ("group", GROUPS),
)
_DEFAULTS = (
    ("client-defaults", CLIENTS),
    ("user-defaults", USERS),
    ("broker-defaults", BROKERS),
    ("ip-defaults", IPS),
)


def checked(options: ConfigsOptions) -> Entity:
    """Checks which options may be combined, in Kafka's order and with Kafka's messages. Returns the entity."""
    if sum((options.alter, options.describe)) != 1:
        raise UsageError("Command must include exactly one action: --describe, --alter")
    forbid(options, "describe", "add-config", "delete-config")
    entity = Entity(_types(options), _names(options))
    try:
        _check_types(options, entity)
        _check_names(options, entity)
        _check_action(options, entity)
    except ValueError as error:
        raise CommandError(str(error)) from None
    return entity


def _types(options: ConfigsOptions) -> tuple[str, ...]:
    return (
        *options.entity_type,
        *(kind for name, kind in (*_SHORTHANDS, *_DEFAULTS) if options.has(name)),
    )


def _names(options: ConfigsOptions) -> tuple[str, ...]:
    """Returns the names of the entities: first from --entity-name and --entity-default in their order, and then from
    the short options, such as --topic."""
    iterator = iter(options.entity_name)
    names: list[str] = []
    for word in options.argv:
        flag_name = word.lstrip("-").partition("=")[0] if word.startswith("-") else ""
        if flag_name == "entity-name":
            names.append(next(iterator))
        elif flag_name == "entity-default":
            names.append("")
    short = {name: getattr(options, name.replace("-", "_")) for name, _ in _SHORTHANDS}
    names += [short[name] for name, _ in _SHORTHANDS if options.has(name)]
    names += ["" for name, _ in _DEFAULTS if options.has(name)]
    return tuple(names)


def _check_types(options: ConfigsOptions, entity: Entity) -> None:
    repeated = [kind for number, kind in enumerate(entity.types) if kind in entity.types[:number]]
    if repeated:
        raise ValueError(f"Duplicate entity type(s) specified: {','.join(repeated)}")
    if options.bootstrap_server is None and options.bootstrap_controller is None:
        raise ValueError("Either --bootstrap-server or --bootstrap-controller must be specified.")
    for kind in entity.types:
        if kind not in ENTITY_TYPES:
            raise ValueError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(ENTITY_TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not entity.types:
        raise ValueError("At least one entity type must be specified")
    if len(entity.types) > 1 and set(entity.types) != {USERS, CLIENTS}:
        raise ValueError("Only 'users' and 'clients' entity types may be specified together")
    long = options.entity_type or options.entity_name or options.entity_default
    if long and any(options.has(name) for name, _ in (*_SHORTHANDS, *_DEFAULTS)):
        raise ValueError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )


def _check_names(options: ConfigsOptions, entity: Entity) -> None:
    if options.bootstrap_server is not None and options.bootstrap_controller is not None:
        raise ValueError("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    named = [name for name in entity.names if name]
    if entity.type in (BROKERS, BROKER_LOGGERS):
        for name in named:
            try:
                parse_int(name)
            except ValueError:
                raise ValueError(
                    f"The entity name for {entity.type} must be a valid integer broker id, but it is: {name}"
                ) from None
    if entity.type == IPS:
        for name in named:
            if not _is_address(name):
                raise ValueError(
                    f"The entity name for {IPS} must be a valid IP or resolvable host, but it is: {name}"
                )


def _check_action(options: ConfigsOptions, entity: Entity) -> None:
    kinds = ",".join(entity.types)
    has_default_kind = any(kind in WITH_DEFAULTS for kind in entity.types)
    named = any(entity.names)
    if options.describe:
        if options.entity_default and not has_default_kind:
            raise ValueError(f"--entity-default must not be specified with --describe of {kinds}")
        if BROKER_LOGGERS in entity.types and not named:
            raise ValueError(f"An entity name must be specified with --describe of {kinds}")
        return
    if has_default_kind:
        if not entity.names:
            raise ValueError(
                "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
    elif not named:
        raise ValueError(f"An entity name must be specified with --alter of {kinds}")
    if options.has("add-config") and options.has("add-config-file"):
        raise ValueError("Only one of --add-config or --add-config-file must be specified")
    if not any(options.has(name) for name in ("add-config", "add-config-file", "delete-config")):
        raise ValueError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    if len(entity.names) != len(entity.types):
        raise ValueError("An entity name must be specified for every entity type")


def _is_address(name: str) -> bool:
    import socket

    from kcli.security.java_address import parse_literal

    try:
        if parse_literal(name) is None:
            socket.getaddrinfo(name, None)
    except (OSError, ValueError):  # ValueError: neither an address nor the name of a host
        return False
    return True

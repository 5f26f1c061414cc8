"""Loads classes that operators install beside kcli, such as an authorizer or a policy.

Keys in server.properties name such classes. In Kafka they are Java classes, which cannot run here. So a Python package
declares its class as an entry point, and the key names the entry point:

    [project.entry-points."kcli.authorizers"]
    "com.example.OurAuthorizer" = "our_package:OurAuthorizer"

The name of the entry point may be any text. If it is the name of the Java class, Kafka and kcli can use the same
server.properties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from kcli.config.definition import ConfigError


def made(
    key: str,
    name: str,
    group: str,
    settings: Mapping[str, str],
    members: tuple[str, ...],
    *,
    shows_reason: bool = True,
) -> object:
    """Makes an object of an operator's class from its settings, and checks that the object has these members.

    Coroutine functions are refused. A call of such a function returns a coroutine object, which counts as True. Without
    this refusal, every password would be accepted.

    If the class refuses its settings, this function raises ConfigError. With `shows_reason`, the error contains the
    text of the class's exception. Otherwise it contains only the type of the exception, because the text may contain a
    secret.
    """
    from inspect import isasyncgenfunction, iscoroutinefunction  # imported late, because few nodes need it

    make = cast("Callable[[Mapping[str, str]], object]", load_class(key, name, group))
    try:
        instance = make(settings)
    except Exception as error:
        reason = error if shows_reason else type(error).__name__
        raise ConfigError(f"{key}: {name} does not accept the configuration: {reason}", key=key) from error
    missing = [member for member in members if not hasattr(instance, member)]
    if missing:
        raise ConfigError(f"{key}: {name} has no {' and no '.join(missing)}", key=key)
    for member in members:
        function = getattr(instance, member)
        if iscoroutinefunction(function) or isasyncgenfunction(function):
            raise ConfigError(f"{key}: {name} has {member} as a coroutine function; expected def", key=key)
    return instance


def load_class(key: str, name: str, group: str) -> type[object]:
    """Returns the class of an entry point.

    `key` is the configuration key that names the class. Raises ConfigError if no installed package has this entry
    point, or if the class cannot be imported.
    """
    from importlib.metadata import entry_points  # imported late, because few nodes need this slow module

    entries = [entry for entry in entry_points(group=group) if entry.name == name]
    if not entries:
        raise ConfigError(
            f"{key}: no installed package has the entry point {name} in the group {group}. A Java class cannot run "
            "here: see docs/security.md",
            key=key,
        )
    try:
        loaded = entries[0].load()
    except Exception as error:
        raise ConfigError(f"{key}: {name} cannot be imported: {error}", key=key) from error
    if not isinstance(loaded, type):
        raise ConfigError(f"{key}: {name} is not a class", key=key)
    return loaded

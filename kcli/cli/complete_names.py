"""Completes the names of topics, groups and profiles. The names of topics and groups come from the cluster.

The cluster has only a short time to answer, because a user waits at a prompt. A failure is not reported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.cli.syntax.options import Command, Option, Subcommand

if TYPE_CHECKING:
    from kcli.client.admin.admin import AdminClient

# The longest wait for the cluster. A reachable broker answers in a tenth of this time.
LOOKUP_S = 1.5
# The most names that are offered. Shells show more names slowly, and users cannot choose from so many names.
MAX_NAMES = 1000
OWN_PREFIX = "__"
SUBJECT = "SUBJECT"
"""The positional argument that is a subject of a schema registry."""

_TOPIC = frozenset({"topic", "target-topic", "dead-letter-topic"})
_TOPIC_LISTS = frozenset(
    {"topic-list", "include", "topics-include", "input-topics", "intermediate-topics", "internal-topics"}
)
_GROUP = frozenset({"group", "group-id"})
_ENTITIES = {"topics": _TOPIC, "groups": _GROUP}


VALUES: dict[str, tuple[str, ...]] = {
    "compression-codec": ("none", "gzip", "snappy", "lz4", "zstd"),
    "election-type": ("preferred", "unclean"),
    "entity-type": (
        *("topics", "brokers", "broker-loggers", "users", "clients", "ips", "client-metrics", "groups"),
    ),
    "group-type": ("classic", "consumer", "share", "streams"),
    "isolation-level": ("read_committed", "read_uncommitted"),
    "resource-pattern-type": ("literal", "prefixed", "any", "match"),
}
"""The values of options whose values Kafka's parser does not check."""


def names_for(
    command: Command, option: Option, known: list[Option], words: Sequence[str], incomplete: str
) -> list[str] | None:
    """Returns the names that the option accepts, or None if its argument is not a topic, group or profile."""
    name = option.name
    if name == "entity-name":
        entities = _ENTITIES.get(_argument(words, "entity-type") or "", frozenset())
        name = next(iter(entities), name)
    before, comma, last = incomplete.rpartition(",") if name in _TOPIC_LISTS else ("", "", incomplete)
    if name in VALUES:
        values = list(VALUES[name])
    elif name == "profile":
        values = _profiles()
    elif name in _TOPIC | _TOPIC_LISTS:
        values = _of_cluster("topics", command, known, words, last)
    elif name in _GROUP:
        values = _of_cluster("groups", command, known, words, last)
    elif name == "subject" and command.name == "schemas":
        values = _subjects(command, words)
    else:
        return None
    fitting = sorted(value for value in values if value.startswith(last) and value.isprintable())
    return [f"{before}{comma}{value}" for value in fitting[:MAX_NAMES]]


def positional_names(command: Command, sub: Subcommand, words: Sequence[str]) -> list[str]:
    """Returns the names that the positional argument of a sub-command accepts."""
    if (command.name, sub.name) == ("profile", "use"):
        return _profiles()
    return _subjects(command, words) if sub.positional == SUBJECT else []


def _subjects(command: Command, words: Sequence[str]) -> list[str]:
    """The subjects of the registry in the arguments, in the profile or in the environment."""
    from kcli.cli.syntax.options import options_of
    from kcli.cli.syntax.profiles import chosen_profile
    from kcli.cli.tools.schemas.connection import RegistryOptions, client_of

    known = options_of(RegistryOptions)
    logging.disable(logging.CRITICAL)
    try:
        profile = chosen_profile(known, _argument(words, "profile"))
        added = {} if profile is None else dict(profile.words(command, known, (), list(words)))
        options = RegistryOptions(
            registry=_argument(words, "registry") or added.get("registry"),
            command_config=_argument(words, "command-config") or added.get("command-config"),
            timeout=round(LOOKUP_S * 1000),
            client_properties={} if profile is None else profile.properties,
        )
        subjects = asyncio.run(asyncio.wait_for(client_of(options).subjects(), LOOKUP_S))
    except Exception:  # an error would disturb the prompt
        return []
    finally:
        logging.disable(logging.NOTSET)
    return [subject for subject in subjects if subject.isprintable()][:MAX_NAMES]


def _profiles() -> list[str]:
    from kcli.cli.syntax.options import CommandError
    from kcli.cli.syntax.profiles import load_profiles

    try:
        return load_profiles().names()
    except (CommandError, FileNotFoundError):
        return []


def _of_cluster(
    kind: str, command: Command, known: list[Option], words: Sequence[str], incomplete: str
) -> list[str]:
    logging.disable(logging.CRITICAL)
    try:
        return asyncio.run(_ask(kind, _admin(command, known, words), incomplete))
    except Exception:  # an error would disturb the prompt
        return []
    finally:
        logging.disable(logging.NOTSET)


async def _ask(kind: str, client: AdminClient, incomplete: str) -> list[str]:
    async with asyncio.timeout(LOOKUP_S), client:
        if kind == "groups":
            return [group.group_id for group in await client.list_groups()]
        is_own = incomplete.startswith(OWN_PREFIX)
        return [topic.name for topic in await client.list_topics(internal=is_own)]


def _admin(command: Command, known: list[Option], words: Sequence[str]) -> AdminClient:
    """Creates a client for the cluster in the arguments or in the profile. Invalid settings are not reported."""
    from kcli.cli.client_properties import load_properties
    from kcli.cli.syntax.profiles import chosen_profile, servers_option
    from kcli.client.admin.admin import AdminClient
    from kcli.client.config import client_config

    servers = servers_option(command)
    names = {name for name in (servers, "bootstrap-controller") if _argument(words, name) is not None}
    profile = chosen_profile(known, _argument(words, "profile"))
    added = dict(profile.words(command, known, names, list(words))) if profile is not None else {}
    config = client_config(
        load_properties(
            _argument(words, "command-config"), profile.properties if profile is not None else None
        ),
        bootstrap_servers=_argument(words, servers) or added.get(servers),
        api_timeout_ms=round(LOOKUP_S * 1000),
    )
    return AdminClient(config)


def _argument(words: Sequence[str], name: str) -> str | None:
    """Returns the argument of `--name` in a command line that is not parsed yet."""
    for number, word in enumerate(words):
        option, equals, text = word.lstrip("-").partition("=")
        if word.startswith("-") and option == name:
            if equals:
                return text
            return words[number + 1] if number + 1 < len(words) else None
    return None

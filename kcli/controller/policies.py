"""Policies of operators: rules for new topics (KIP-108) and for changes of configurations (KIP-133).

create.topic.policy.class.name and alter.config.policy.class.name name Python classes of other packages. The constructor
of a class gets the node's properties. To accept a request, the method `validate` returns None. To refuse a request,
`validate` raises PolicyViolationException with a reason. Any other exception, and any other result, also refuses the
request.

The controller calls a policy on its event loop, so a policy must answer within a millisecond and must not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.errors import KafkaError, UnknownServerException
from kcli.model.java_text import trim
from kcli.security.plugins import made

Request = TypeVar("Request")

CREATE_TOPIC_KEY = "create.topic.policy.class.name"
ALTER_CONFIG_KEY = "alter.config.policy.class.name"
CREATE_TOPIC_GROUP = "kcli.create_topic_policies"
ALTER_CONFIG_GROUP = "kcli.alter_config_policies"
"""The names of the groups of entry points in which Python packages register their policy classes."""


@dataclass(frozen=True, slots=True)
class TopicToCreate:
    """A topic that a client wants to create.

    If the client chose the replicas of each partition, `assignments` has the replicas by partition, and `partitions`
    and `replication_factor` are None. Otherwise `assignments` is None. `configs` has the keys that the client sets.
    """

    name: str
    partitions: int | None
    replication_factor: int | None
    assignments: Mapping[int, tuple[int, ...]] | None
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ConfigsToAlter:
    """A change of a configuration. `resource_type` is TOPIC, BROKER, GROUP or CLIENT_METRICS.

    `configs` has the keys that change, with their new values. The value None deletes a key.
    """

    resource_type: str
    resource_name: str
    configs: Mapping[str, str | None]


class CreateTopicPolicy(Protocol):
    def validate(self, request: TopicToCreate) -> None:
        """Raises PolicyViolationException if the topic must not be created."""


class AlterConfigPolicy(Protocol):
    def validate(self, request: ConfigsToAlter) -> None:
        """Raises PolicyViolationException if the configuration must not be changed."""


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a controller. If a policy is None, every request is accepted."""

    create_topic: CreateTopicPolicy | None = None
    alter_config: AlterConfigPolicy | None = None

    def check_topic(self, request: TopicToCreate) -> None:
        """Raises KafkaError if the policy refuses the topic."""
        if self.create_topic is not None:
            _ask(self.create_topic.validate, request)

    def check_configs(self, request: ConfigsToAlter) -> None:
        """Raises KafkaError if the policy refuses the change."""
        if self.alter_config is not None:
            _ask(self.alter_config.validate, request)


NO_POLICIES = Policies()


def configured_policies(config: BrokerConfig) -> Policies:
    """Makes the policies of a controller. Raises ConfigError if a class cannot be found, or if the policy cannot be
    made from it."""
    return Policies(
        create_topic=cast("CreateTopicPolicy | None", _made(config, CREATE_TOPIC_KEY, CREATE_TOPIC_GROUP)),
        alter_config=cast("AlterConfigPolicy | None", _made(config, ALTER_CONFIG_KEY, ALTER_CONFIG_GROUP)),
    )


def _made(config: BrokerConfig, key: str, group: str) -> object | None:
    name = trim(config.text(key))
    if not name:
        return None
    try:
        return made(key, name, group, config.texts, ("validate",))
    except ConfigError as error:
        raise error.at(config.texts.where(key)) from None


def _ask(validate: Callable[[Request], None], request: Request) -> None:
    """Calls a policy. Raises KafkaError, which refuses the request, if the policy raises an error or returns a result
    other than None."""
    ask = cast("Callable[[Request], object]", validate)
    try:
        result = ask(request)
    except KafkaError:
        raise
    except Exception as error:
        raise UnknownServerException(f"The policy failed: {type(error).__name__}") from error
    if result is not None:
        raise UnknownServerException(f"The policy failed: it returned {type(result).__name__}")

"""The strategies that choose the subject of a schema: by the topic, by the name of the record, or by an association."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from kcli.formats.codec import FormatError
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.expiring import Expiring

ANY_CLUSTER = "-"
"""The namespace of associations that stands for any cluster."""


class Strategy(enum.StrEnum):
    """The strategies, under the names of Confluent's setting `subject.name.strategy.type`."""

    TOPIC = "TOPIC"
    RECORD = "RECORD"
    TOPIC_RECORD = "TOPIC_RECORD"
    ASSOCIATED = "ASSOCIATED"
    NONE = "NONE"
    """Only a fallback of ASSOCIATED: a topic without an association is an error."""


_CLASSES = {
    "TopicNameStrategy": Strategy.TOPIC,
    "RecordNameStrategy": Strategy.RECORD,
    "TopicRecordNameStrategy": Strategy.TOPIC_RECORD,
    "AssociatedNameStrategy": Strategy.ASSOCIATED,
}


def strategy_of(text: str) -> Strategy:
    """Returns the strategy with a name, or with the name of Confluent's class. Raises FormatError."""
    named = _CLASSES.get(text.rpartition(".")[2])
    if named is not None:
        return named
    try:
        return Strategy(text.upper())
    except ValueError:
        known = ", ".join([*_CLASSES, *Strategy])
        raise FormatError(f"unknown subject name strategy {text}: expected one of {known}") from None


def plain_subject(strategy: Strategy, topic: str, record_name: str | None, *, is_key: bool) -> str:
    """Returns the subject of a strategy that does not ask the registry. Raises FormatError."""
    match strategy:
        case Strategy.TOPIC:
            return f"{topic}-{'key' if is_key else 'value'}"
        case Strategy.RECORD | Strategy.TOPIC_RECORD:
            if not record_name:
                raise FormatError(f"the subject name strategy {strategy} needs a schema with a name")
            return record_name if strategy is Strategy.RECORD else f"{topic}-{record_name}"
        case _:
            raise FormatError(
                f"no subject is associated with the {'keys' if is_key else 'values'} of {topic}"
            )


@dataclass(slots=True)
class Subjects:
    """Chooses the subjects of topics by one strategy, and remembers the associations of the registry."""

    client: RegistryClient
    strategy: Strategy = Strategy.ASSOCIATED
    fallback: Strategy = Strategy.TOPIC
    """The strategy of topics without an association."""
    cluster_id: str = ANY_CLUSTER
    """The id of the Kafka cluster, as the namespace of associations."""
    _associated: Expiring[tuple[str, bool], tuple[str, ...]] = field(
        default_factory=lambda: Expiring(float("inf"))
    )

    async def subject(self, topic: str, record_name: str | None, *, is_key: bool) -> str:
        """Returns the subject of a schema. Raises FormatError if the strategy finds no subject, and RegistryError."""
        if self.strategy is not Strategy.ASSOCIATED:
            return plain_subject(self.strategy, topic, record_name, is_key=is_key)
        kind = "key" if is_key else "value"
        associated = self._associated.get((topic, is_key))
        if associated is None:
            associated = await self.client.associated_subjects(self.cluster_id, topic, kind)
            self._associated.put((topic, is_key), associated)
        if len(associated) > 1:
            raise FormatError(
                f"the {kind}s of {topic} are associated with the subjects {', '.join(associated)}"
            )
        return (
            associated[0] if associated else plain_subject(self.fallback, topic, record_name, is_key=is_key)
        )

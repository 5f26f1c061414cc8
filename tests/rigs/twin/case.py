"""A row of the twin's table: a request as data, its versions, and the fields of the answer that are known.

Requests are written as mappings, lists and plain values. The message of the API gives them their types. Each server has
its own ids, so stand-ins are replaced before a request is sent:

- `{v}` in a text: the version
- `{member}` in a text: the last member id that the server gave
- `PRODUCER`: the last producer id that the server gave
- `TOPIC_IDS`: the ids of topics
"""

from __future__ import annotations

import dataclasses
import types
import typing
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey

Data = str | int | float | bool | bytes | uuid.UUID | None | Sequence["Data"] | Mapping[str, "Data"]

PRODUCER = 7_777_777_001
"""Stands for the producer id that the server gave last."""

TOPIC_IDS = {uuid.UUID(int=0xF1 << 96): "twin-a", uuid.UUID(int=0xF2 << 96): "twin-new-7"}
"""Ids that stand for the ids of these topics."""

UNKNOWN_ID = uuid.UUID(int=0xF9 << 96)


@dataclass(frozen=True, slots=True)
class Since:
    """An expected value that depends on the version: first version -> value."""

    values: Mapping[int, Data]

    def of(self, version: int) -> Data:
        return next(self.values[since] for since in sorted(self.values, reverse=True) if since <= version)


@dataclass(frozen=True, slots=True)
class Case:
    """A request, sent in each version from `since` to `until` that the API has.

    `expect` maps a path such as `topics.partitions.error_code` to the value of that field, or to a tuple of the values
    in all entries on the way. A field that the version lacks has its default.
    """

    name: str
    key: ApiKey
    request: Mapping[str, Data] = field(default_factory=dict)
    expect: Mapping[str, Data | Since] = field(default_factory=dict)
    since: int = 0
    until: int = 99

    def versions(self) -> range:
        spec = API[self.key]
        return range(max(spec.min_version, self.since), min(spec.max_version, self.until) + 1)

    def message(self) -> Any:
        return build(codec.message_class(self.key, "request"), self.request)

    def expected(self, version: int) -> Iterator[tuple[str, Data]]:
        for path, value in self.expect.items():
            yield path, value.of(version) if isinstance(value, Since) else value


def build(hint: Any, value: Data) -> Any:
    """The value of a field, or a whole message, from its type and plain data."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return None if value is None else build(kinds[0], value)
    if typing.get_origin(hint) is tuple:
        assert isinstance(value, Sequence)
        return tuple(build(typing.get_args(hint)[0], each) for each in value)
    if dataclasses.is_dataclass(hint):
        assert isinstance(value, Mapping)
        hints = typing.get_type_hints(hint)
        make: Any = hint
        return make(**{name: build(hints[name], each) for name, each in value.items()})
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    return value


def leaves(value: Any, path: str) -> tuple[Any, ...]:
    """The values at a path, of every entry of the lists on the way."""
    found = [value]
    for name in path.split("."):
        found = [getattr(each, name) for each in found]
        found = [each for many in found for each in (many if isinstance(many, tuple) else (many,))]
    return tuple(found)

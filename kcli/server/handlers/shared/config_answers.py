"""A cache of the entries that DescribeConfigs returns. The cache is valid until the configuration of the broker
changes.

Most topics have the same configuration. So when a tool describes 10,000 topics, the entries of these topics are made
only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kcli.config.describe import BrokerLayers
from kcli.config.dynamic import DynamicConfig
from kcli.protocol.messages.describe_configs import DescribeConfigsResourceResult
from kcli.protocol.wire.shared_array import SharedArray

Entries = SharedArray[DescribeConfigsResourceResult]

KINDS_MAX = 64
"""The largest number of cached answers. An answer takes 20 kB for a topic and 200 kB for a broker."""


@dataclass(frozen=True, slots=True)
class EntriesKind:
    """The key of the cache. The entries of a resource depend only on these values and on the configuration of the
    broker."""

    api_version: int
    with_synonyms: bool
    with_documentation: bool
    resource_type: int
    broker: str
    """The broker id, or an empty text for other resources. Two other resources with equal overrides also have equal
    entries."""
    overrides: frozenset[tuple[str, str]]


class ConfigAnswers:
    """The cached answers of one node."""

    def __init__(self) -> None:
        self._layers: BrokerLayers | None = None
        self._by_kind: dict[EntriesKind, Entries] = {}

    def entries(
        self,
        dynamic: DynamicConfig,
        kind: EntriesKind,
        make: Callable[[], Iterable[DescribeConfigsResourceResult]],
    ) -> Entries:
        """The entries of one resource. `make` makes the entries if they are not in the cache."""
        if dynamic.layers is not self._layers:  # a change of the configuration makes new layers
            self._layers = dynamic.layers
            self._by_kind.clear()
        known = self._by_kind.get(kind)
        if known is None:
            if len(self._by_kind) >= KINDS_MAX:
                del self._by_kind[next(iter(self._by_kind))]
            known = self._by_kind[kind] = SharedArray(make())
        return known

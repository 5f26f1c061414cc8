"""Reports keys of mm2.properties that have no effect, because a mistyped key would otherwise be noticed late."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence

from kcli.connect.config.worker_keys import DISTRIBUTED
from kcli.connectors.mirror.keys import CLIENT_KEYS
from kcli.mirror.config.keys import (
    CONNECTOR_KEYS,
    DRIVER,
    INTERNAL_REST,
    PROVIDERS_PREFIX,
    REST_KEYS,
    WORKER_PREFIXES,
)

_NEAR = 0.85
"""The similarity of names from which a name is probably a mistyped one."""

_FLOW_PREFIXES = (
    "admin.",
    "config.providers.",
    "consumer.",
    "errors.",
    "exactly.once.support",
    "offsets.storage.topic",
    "predicates.",
    "producer.",
    "source.",
    "target.",
    "topic.creation.",
    "transaction.boundary",
    "transforms.",
    "use.defaults.from",
    "kcli.",
)
"""The beginnings of keys of a flow that are not in CONNECTOR_KEYS."""


def warnings_of(texts: Mapping[str, str], clusters: Sequence[str], *, has_rest: bool) -> Sequence[str]:
    """A sentence for each key without effect."""
    return [warning for key in texts for warning in _warnings(key, clusters, has_rest=has_rest)]


def _warnings(key: str, clusters: Sequence[str], *, has_rest: bool) -> Iterator[str]:
    before, arrow, after = key.partition("->")
    if arrow:
        yield from _flow_warnings(key, before, after, clusters)
    elif key in REST_KEYS and not has_rest:
        yield f"{key} has no effect without {INTERNAL_REST}=true"
    elif not (
        key in DRIVER
        or key in CONNECTOR_KEYS
        or key in CLIENT_KEYS
        or key.startswith((*WORKER_PREFIXES, PROVIDERS_PREFIX, "listeners.https."))
        or any(key.startswith(f"{alias}.") for alias in clusters)
    ):
        yield _unknown_at_top(key, clusters)


def _unknown_at_top(key: str, clusters: Sequence[str]) -> str:
    if key in DISTRIBUTED or key.startswith(("producer.", "consumer.", "admin.")):
        alias = clusters[0] if clusters else "A"
        return (
            f"{key} has no effect without the alias of a cluster: write it for each cluster, as {alias}.{key}"
        )
    if key.startswith(_FLOW_PREFIXES):
        return f"{key} has no effect without a flow: write it for each flow, such as A->B.{key}"
    return f"{key} is not a configuration key of MirrorMaker{_hint(key, {*DRIVER, *CONNECTOR_KEYS})}"


def _flow_warnings(key: str, source: str, rest: str, clusters: Sequence[str]) -> Iterator[str]:
    """`rest` is the part of the key after the arrow."""
    target = next((alias for alias in clusters if rest.startswith(f"{alias}.")), None)
    if source not in clusters or target is None:
        yield f"{key} has no effect, because {', '.join(clusters)} are the only clusters"
        return
    name = rest.removeprefix(f"{target}.")
    if name not in CONNECTOR_KEYS and not name.startswith(_FLOW_PREFIXES):
        yield f"{key} is probably not a key of its connectors{_hint(name, CONNECTOR_KEYS)}"


def _hint(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=_NEAR)
    return f". Did you mean {near[0]}?" if near else ""

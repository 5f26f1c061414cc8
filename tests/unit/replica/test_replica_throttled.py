"""Lists of throttled replicas."""

from __future__ import annotations

from kcli.model.ids import BrokerId
from kcli.replica.throttled import throttled_replicas


def test_a_star_throttles_all_partitions() -> None:
    throttled = throttled_replicas(("*",), BrokerId(1))
    assert 0 in throttled and 4711 in throttled


def test_only_pairs_with_the_id_of_the_broker_count() -> None:
    throttled = throttled_replicas(("0:1", " 2:1", "3:11", "4:2", ""), BrokerId(1))
    assert [index for index in range(6) if index in throttled] == [0, 2]


def test_an_empty_list_throttles_nothing() -> None:
    assert 0 not in throttled_replicas((), BrokerId(1))

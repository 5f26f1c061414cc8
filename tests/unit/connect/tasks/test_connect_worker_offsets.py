"""A source task asks the worker for its offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.sources.worker_offsets import OFFSETS_PER_REQUEST, WorkerOffsets, store_offsets
from kcli.formats.connect.errors import ConnectException


@dataclass
class Worker:
    """Has an offset for each even partition."""

    request_sizes: list[int] = field(default_factory=list)

    def ask(self, method: str, body: list[str]) -> list[str | None]:
        assert method == "get_offsets"
        self.request_sizes.append(len(body))
        numbers = [int(key.removeprefix('["c",{"n":').removesuffix("}]")) for key in body]
        return [None if number % 2 else f'{{"at":{number}}}' for number in numbers]


def test_the_offsets_of_many_partitions_are_asked_for_in_several_requests() -> None:
    worker = Worker()
    offsets = WorkerOffsets("c", cast("Channel", worker))
    count = 2 * OFFSETS_PER_REQUEST + 1
    assert offsets.offsets({"n": n} for n in range(count)) == [
        None if n % 2 else {"at": n} for n in range(count)
    ]
    assert worker.request_sizes == [OFFSETS_PER_REQUEST, OFFSETS_PER_REQUEST, 1]
    assert offsets.offsets([]) == []
    assert offsets.offset({"n": 4}) == {"at": 4}


@dataclass
class Store:
    """Takes offsets. The second request and all after it fail if `fails`."""

    fails: bool = False
    bodies: list[list[list[str | None]]] = field(default_factory=list)

    def ask(self, method: str, body: list[list[str | None]], timeout_s: float) -> None:
        assert method == "put_offsets"
        assert 0 <= timeout_s <= 5
        self.bodies.append(body)
        if self.fails and len(self.bodies) > 1:
            raise ConnectException("no broker")


def test_many_offsets_are_stored_in_several_requests() -> None:
    store, count = Store(), 2 * OFFSETS_PER_REQUEST + 1
    store_offsets(cast("Channel", store), {str(n).encode(): b"1" if n else None for n in range(count)}, 5)
    assert [len(body) for body in store.bodies] == [OFFSETS_PER_REQUEST, OFFSETS_PER_REQUEST, 1]
    assert store.bodies[0][:2] == [["0", None], ["1", "1"]]


def test_a_request_that_fails_ends_the_storing_of_offsets() -> None:
    store = Store(fails=True)
    with pytest.raises(ConnectException, match="no broker"):
        store_offsets(cast("Channel", store), dict.fromkeys(map(bytes, range(3001))), 5)
    assert len(store.bodies) == 2

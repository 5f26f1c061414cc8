"""A source task asks the worker for its offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.source import OFFSETS_PER_REQUEST, WorkerOffsets


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

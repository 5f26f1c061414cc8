"""The line of connections: each turn serves a bounded part, in equal shares."""

from __future__ import annotations

import asyncio

from kcli.server.network.request_line import BYTES_PER_REQUEST_MIN, BYTES_PER_TURN, RequestLine
from rigs.loops import on_a_loop

REQUESTS_PER_TURN = BYTES_PER_TURN // BYTES_PER_REQUEST_MIN


class Waiting:
    """A connection with small requests that wait. Notes its requests in a common list."""

    def __init__(self, name: str, line: RequestLine, requests: int, served: list[str]) -> None:
        self.name, self.line, self.requests, self.served = name, line, requests, served

    def serve_turn(self, bytes_max: int) -> int:
        used = 0
        while self.requests and used < bytes_max:
            self.requests -= 1
            self.served.append(self.name)
            used += BYTES_PER_REQUEST_MIN
        if self.requests:
            self.line.join(self)
        return used


@on_a_loop
async def test_a_connection_alone_uses_the_whole_turn() -> None:
    line, served = RequestLine(), list[str]()
    line.join(Waiting("a", line, 2 * REQUESTS_PER_TURN + 1, served))
    counts = [await one_turn(served) for _ in range(3)]
    assert counts == [REQUESTS_PER_TURN, REQUESTS_PER_TURN, 1]


@on_a_loop
async def test_connections_share_a_turn() -> None:
    line, served = RequestLine(), list[str]()
    for name in "abcd":
        line.join(Waiting(name, line, 1000, served))
    await one_turn(served)
    assert {name: served.count(name) for name in "abcd"} == dict.fromkeys("abcd", REQUESTS_PER_TURN // 4)


@on_a_loop
async def test_every_connection_of_a_long_line_gets_a_request_in_its_turn() -> None:
    line, served = RequestLine(), list[str]()
    names = [str(number) for number in range(3 * REQUESTS_PER_TURN)]
    for name in names:
        line.join(Waiting(name, line, 1000, served))
    for _ in range(3):
        assert await one_turn(served) == REQUESTS_PER_TURN
    assert served == names


@on_a_loop
async def test_a_connection_that_received_requests_waits_behind_the_line() -> None:
    line, served = RequestLine(requests_max=2), list[str]()
    assert line.allowance == BYTES_PER_TURN
    line.join(Waiting("a", line, 1000, served))
    assert line.allowance == 1
    line.join(Waiting("b", line, 1000, served))
    assert line.allowance == 0


@on_a_loop
async def test_connections_that_receive_requests_in_the_same_turn_share_it() -> None:
    line = RequestLine()
    line.count(BYTES_PER_REQUEST_MIN)
    assert line.allowance == BYTES_PER_TURN, "a single request does not count"
    line.count(BYTES_PER_TURN // 4)
    assert line.allowance == BYTES_PER_TURN * 3 // 4
    line.count(BYTES_PER_TURN)
    assert line.allowance == 1
    await asyncio.sleep(0)
    assert line.allowance == BYTES_PER_TURN


async def one_turn(served: list[str]) -> int:
    before = len(served)
    await asyncio.sleep(0)
    return len(served) - before

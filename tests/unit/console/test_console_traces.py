"""The trace of a record on the console."""

from __future__ import annotations

import asyncio
from typing import Any

from kcli.console.settings import ClusterSettings
from rigs.collector import Collector, Received, collector
from rigs.console import browser, console
from rigs.scripted_cluster import ScriptedCluster

TRACE = "0af7651916cd43dd8448eb211c80319c"
PLACE = "?topic=orders&partition=2&offset=7"
HOSTILE = "<script>alert(1)</script>"


def received(
    name: str, span_id: str, parent: str = "", start: int = 0, end: int = 1000, **attributes: Any
) -> Received:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return Received(name, 1, TRACE, span_id, parent, start, end, named, [], HOSTILE, False)


RECORD = {
    "messaging__operation__name": "send",
    "messaging__destination__name": "orders",
    "messaging__destination__partition__id": "2",
    "messaging__kafka__offset": 7,
}


async def asked(store: str | None, trace_id: str = TRACE, place: str = PLACE) -> tuple[int, Any]:
    with ScriptedCluster().server as server:
        main = ClusterSettings(name="main", properties={"bootstrap.servers": server.address}, traces=store)
        async with console(main) as address, browser(address) as page:
            await page.open()
            answer = await page.get(f"/api/clusters/main/traces/{trace_id}{place}")
            return page.status, answer


def stored(spans: list[Received]) -> Any:
    store: Collector
    with collector() as store:
        store.spans += spans
        return asyncio.run(asked(store.url))


def test_a_trace_is_a_tree_with_the_way_of_the_record() -> None:
    spans = [
        received("send orders", "a" * 16, "", 0, 5_000_000, **RECORD),
        received("kafka.Produce", "b" * 16, "a" * 16, 1_000_000, 3_000_000),
    ]
    status, answer = stored(spans)
    assert status == 200
    assert [(row["name"], row["depth"], row["is_record"]) for row in answer["spans"]] == [
        ("send orders", 0, True),
        ("kafka.Produce", 1, False),
    ]
    assert [(row["name"], row["duration_us"]) for row in answer["steps"]] == [
        ("sent", 5000),
        ("in the broker", 2000),
    ]
    assert (answer["total_us"], answer["count"]) == (5000, 2)
    assert "kcli trace --bootstrap-server" in answer["command"]
    assert answer["spans"][0]["service"] == HOSTILE  # the page makes a text node of it


def test_missing_stores_and_traces_have_clear_errors() -> None:
    assert asyncio.run(asked(None)) == (404, _error("NO_TRACE_STORE", "Start it with --traces URL"))
    assert stored([]) == (404, _error("TRACE_NOT_FOUND", "did not sample it"))
    status, answer = asyncio.run(asked("http://user:secret@127.0.0.1:1"))
    assert (status, answer["error"], "secret" in answer["message"]) == (502, "TRACE_STORE_FAILED", False)


def test_an_id_that_is_no_trace_id_is_refused() -> None:
    for wrong in ("x", TRACE.upper(), TRACE + "0", "..%2F..%2Fadmin"):
        assert asyncio.run(asked("http://127.0.0.1:1", wrong))[0] in (400, 404)


def test_a_place_that_is_no_number_is_refused() -> None:
    status, answer = asyncio.run(asked("http://127.0.0.1:1", place="?topic=t&partition=x"))
    assert (status, "partition" in answer["message"]) == (400, True)


class _error(dict[str, str]):
    """Equals an error with this name whose message has this part."""

    def __init__(self, name: str, part: str) -> None:
        super().__init__(error=name, message=part)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, dict)
            and other["error"] == self["error"]
            and self["message"] in other["message"]
        )

    __hash__ = None

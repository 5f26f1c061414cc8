"""The figures of the check-up, from the beans of metrics endpoints."""

from __future__ import annotations

import asyncio
import json

import pytest

from kcli.client.client import Node
from kcli.http.broker_metrics import BeanValues
from kcli.http.checkup_metrics import metrics_of, named_metrics
from kcli.http.server import JSON, HttpServer, Request, Response, get, respond
from kcli.model.addresses import Address
from kcli.runtime.network import SystemNetwork

NODES = tuple(Node(number, "h", 9092, None) for number in (1, 2, 3))
CLOSED = Address("127.0.0.1", 1)
BEANS = (
    {"name": "kafka.server:type=app-info,id=2"},
    {
        "name": "kafka.server:type=socket-server-metrics,clientSoftwareName=a,clientSoftwareVersion=1.2",
        "connections": 3.0,
    },
)


def test_the_figures_of_beans() -> None:
    beans = [
        BeanValues(
            "x",
            {"type": "socket-server-metrics", "clientSoftwareName": "a", "clientSoftwareVersion": "1.2"},
            {"connections": 3.0},
        ),
        BeanValues("y", {"type": "socket-server-metrics", "listener": "L"}, {"connection-count": 3.0}),
        BeanValues(
            "z", {"type": "Log", "name": "NumLogSegments", "topic": "t", "partition": "1"}, {"Value": 7}
        ),
    ]
    found = metrics_of({2: beans}, {})
    (client,) = found.clients
    assert (client.broker, client.name, client.version, client.connections) == (2, "a", "1.2", 3)
    assert found.segments == {("t", 1): 7}


@pytest.mark.parametrize(
    ("others", "reason"), [((), "its endpoint was not named"), ((CLOSED,), "Connection refused")]
)
def test_an_endpoint_names_its_broker_and_the_others_have_a_reason(
    others: tuple[Address, ...], reason: str
) -> None:
    async def jmx(request: Request) -> Response:
        return respond(json.dumps({"beans": BEANS}).encode(), JSON)

    async def story() -> None:
        served = HttpServer([get("/jmx", jmx)], SystemNetwork())
        endpoint = Address("127.0.0.1", await served.start("127.0.0.1", 0))
        found = await named_metrics((endpoint, *others))(NODES)
        assert [each.broker for each in found.clients] == [2]
        assert found.without.keys() == {1, 3}
        assert reason in found.without[1]
        await served.stop()

    asyncio.run(story())

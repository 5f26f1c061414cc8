"""The internal REST server of MirrorMaker: each request reaches the herder of its flow, and nothing else is served."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from kcli.config.properties import parse
from kcli.connect.decisions.session import SessionSettings
from kcli.connect.errors import RestError
from kcli.connect.peers.forwarding import Forwarder
from kcli.connect.peers.internal_requests import NO_URL, InternalRequests
from kcli.connect.rest.server import RestServer
from kcli.connect.rest.settings import internal_settings
from kcli.mirror.config.grammar import mirror_config
from kcli.runtime.network import SystemNetwork
from rigs.connect_herder import LoneHerder, lone_herder
from rigs.loops import on_a_loop

REST = "clusters = A\ndedicated.mode.enable.internal.rest = true\nlisteners = http://127.0.0.1:0"
SESSION = SessionSettings()
TWO: list[dict[str, str | None]] = [{"task": "0"}, {"task": "1"}]


@contextlib.asynccontextmanager
async def two_flows() -> AsyncIterator[tuple[LoneHerder, LoneHerder, str]]:
    """The leaders of the flows `A->us west` and `us west->A`, and the URL of their server."""
    rest = mirror_config(parse(REST)).rest
    assert rest is not None
    server = RestServer(internal_settings(rest), SystemNetwork())
    [address] = await server.listen()
    async with lone_herder() as there, lone_herder() as back:
        server.serve_internal({"/A/us west": there.herder, "/us west/A": back.herder})
        for it in (there, back):
            await it.put("c", 1)
            await it.assign()
        try:
            yield there, back, f"http://127.0.0.1:{address.port}/"
        finally:
            await server.stop()


@on_a_loop
async def test_task_configurations_reach_only_the_herder_of_their_flow() -> None:
    async with two_flows() as (there, back, url):
        requests = InternalRequests(Forwarder(), SESSION, "/us%20west/A")
        await requests.put_task_configs(url, "c", TWO, back.configs.state.session_key)
        assert len(back.configs.state.tasks["c"]) == 2
        assert len(there.configs.state.tasks["c"]) == 1


@on_a_loop
async def test_a_request_without_the_key_of_the_group_is_refused() -> None:
    async with two_flows() as (there, _, url):
        requests = InternalRequests(Forwarder(), SESSION, "/A/us%20west")
        with pytest.raises(RestError) as caught:
            await requests.put_task_configs(url, "c", TWO, None)
        assert caught.value.status in (400, 403)
        assert len(there.configs.state.tasks["c"]) == 1


@pytest.mark.parametrize(
    ("path", "status"), [("health", 200), ("connectors", 404), ("A/us%20west/connectors", 404), ("", 404)]
)
def test_the_api_for_users_is_not_served(path: str, status: int) -> None:
    @on_a_loop
    async def story() -> None:
        async with two_flows() as (_, _, url):
            assert (await Forwarder().send("GET", url + path, b"", {})).status == status

    story()


@on_a_loop
async def test_a_leader_without_a_server_is_named_with_the_key_to_set() -> None:
    requests = InternalRequests(Forwarder(), SESSION, "/A/B")
    with pytest.raises(RestError, match=r"'dedicated\.mode\.enable\.internal\.rest' property\.$"):
        await requests.fence(NO_URL, "c", None)

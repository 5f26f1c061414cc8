"""The connectors of a flow: which configurations its worker writes when it becomes the leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from kcli.config.properties import parse
from kcli.connect.assembly import Peering
from kcli.connect.config.worker import distributed_config
from kcli.connect.errors import BadRequest, NotFound, NotLeader
from kcli.connect.herders.herder import Created
from kcli.connect.model import Config, ConnectorInfo, ConnectorType, TargetState
from kcli.connect.peers.internal_requests import NO_URL
from kcli.errors import KcliError
from kcli.mirror.config.grammar import CONNECTORS, Flow, mirror_config
from kcli.mirror.flow_worker import FlowWorker

FLOW = Flow("A", "B")
SOURCE, HEARTBEAT, CHECKPOINT = CONNECTORS
CONFIG = mirror_config(parse("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1"))
DESIRED = {name: CONFIG.connector(FLOW, name) for name in CONNECTORS}


class Group:
    """The stored configurations, and the writes. `error` is raised by each write."""

    def __init__(self, stored: dict[str, Config], error: KcliError | None) -> None:
        self.stored = stored
        self.error = error
        self.written: list[str] = []

    def config(self, name: str) -> Config:
        if name not in self.stored:
            raise NotFound(name)
        return self.stored[name]

    async def put_config(
        self, name: str, config: Config, target: TargetState | None, *, may_replace: bool
    ) -> Created:
        assert target is None, "the connector starts"
        assert may_replace, "the file may be newer"
        if self.error is not None:
            raise self.error
        self.written.append(name)
        return Created(True, ConnectorInfo(name, config, [], ConnectorType.SOURCE))


@pytest.fixture
def lead(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Callable[[dict[str, Config], KcliError | None], list[str]]:
    """Lets a worker become the leader. Returns the written names, then the log."""
    caplog.set_level(logging.INFO)

    async def become_leader(group: Group) -> None:
        peering = Peering(NO_URL, worker_id="me")
        worker = FlowWorker(FLOW, distributed_config(CONFIG.worker(FLOW)), DESIRED, "id", peering)
        monkeypatch.setattr(worker.herder, "put_config", group.put_config)
        monkeypatch.setattr(worker.herder.views, "config", group.config)
        worker.herder.on_lead()
        await _others()

    def run(stored: dict[str, Config], error: KcliError | None) -> list[str]:
        group = Group(stored, error)
        caplog.clear()
        asyncio.run(become_leader(group))
        lines = [one.getMessage() for one in caplog.records if one.name.endswith("MirrorHerder")]
        assert lines.pop(0) == "This node me is now a leader for A->B. Configuring connectors..."
        return [*group.written, *lines]

    return run


async def _others() -> None:
    others: list[Awaitable[object]] = [
        task for task in asyncio.all_tasks() if task is not asyncio.current_task()
    ]
    await asyncio.gather(*others)


Lead = Callable[[dict[str, Config], KcliError | None], list[str]]


def test_missing_configurations_are_written_in_javas_order(lead: Lead) -> None:
    assert lead({}, None) == [*CONNECTORS, *(f"{name} connector configured for A->B." for name in CONNECTORS)]


def test_only_configurations_that_differ_are_written(lead: Lead) -> None:
    stored = {SOURCE: DESIRED[SOURCE], HEARTBEAT: {**DESIRED[HEARTBEAT], "topics": "x"}}
    assert lead(stored, None) == [
        HEARTBEAT,
        CHECKPOINT,
        f"This node is a leader for A->B and configuration for {SOURCE} is already up to date.",
        f"{HEARTBEAT} connector configured for A->B.",
        f"{CHECKPOINT} connector configured for A->B.",
    ]


def test_a_worker_that_leads_no_longer_uses_the_stored_configuration(lead: Lead) -> None:
    lines = lead({}, NotLeader("http://other/"))
    assert lines == ["This node is a follower for A->B. Using existing connector configuration."] * 3


def test_an_invalid_configuration_is_reported_for_each_connector(lead: Lead) -> None:
    assert lead({}, BadRequest("contains 1 error")) == [
        f"Failed to configure {name} connector for A->B: contains 1 error" for name in CONNECTORS
    ]

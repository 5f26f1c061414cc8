"""A metadata transaction that is open when the controller fails is aborted by the next controller (KIP-868)."""

from __future__ import annotations

import uuid

import pytest

from kcli.controller.api import INCREMENTAL_ALTER_CONFIGS
from kcli.controller.controller import Controller
from kcli.metadata.image import MetadataImage
from kcli.model.configs import CLUSTER_DEFAULT
from kcli.protocol.messages import incremental_alter_configs as ia
from kcli.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    MetadataRecord,
    TopicRecord,
)
from kcli.server.node import Node
from kcli.server.quorum.active_controller import ActiveController
from rigs.quorum import batches
from simulation.actors.client import eventually
from simulation.checks.quorum_watch import QuorumWatch
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import SimCluster, SimNode

KEY, GHOST = "message.max.bytes", "ghost"
PATIENCE_S = 60.0
HALF: tuple[MetadataRecord, ...] = (
    BeginTransactionRecord(name="half"),
    TopicRecord(name=GHOST, topic_id=uuid.UUID(int=1)),
    ConfigRecord(resource_type=int(CLUSTER_DEFAULT.type), resource_name="", name=KEY, value="13"),
)


def running(machine: SimNode) -> Node:
    assert machine.running is not None
    return machine.running


def active_of(machine: SimNode) -> ActiveController | None:
    node = machine.running
    return None if node is None or node.controller is None else node.controller.active


async def active(machines: list[SimNode]) -> SimNode:
    """Waits until one of the machines has the active controller."""
    await eventually(lambda: any(map(active_of, machines)), PATIENCE_S, "a controller is active")
    return next(each for each in machines if active_of(each))


def records_of(machine: SimNode) -> list[MetadataRecord]:
    return [record for _, records in batches(machine.disk) for record in records]


async def change(machine: SimNode, value: str) -> None:
    resource = ia.AlterConfigsResource(
        resource_type=int(CLUSTER_DEFAULT.type),
        resource_name="",
        configs=(ia.AlterableConfig(name=KEY, value=value),),
    )
    controller = running(machine).controller
    assert controller is not None
    await controller.send(INCREMENTAL_ALTER_CONFIGS, ia.IncrementalAlterConfigsRequest(resources=(resource,)))


def shows(image: MetadataImage, value: str | None) -> bool:
    return GHOST not in image.topics and image.config(CLUSTER_DEFAULT).get(KEY) == value


async def leave_open(old: SimNode, others: list[SimNode], *, ends_in_vain: bool) -> None:
    """Commits the first half of a transaction, and ends the active controller. If `ends_in_vain` is True, this
    controller also writes the end of the transaction, which no other controller gets."""
    controller = active_of(old)
    assert controller is not None
    before = running(old).metadata
    await controller.write(HALF)
    await eventually(
        lambda: all(any(isinstance(each, TopicRecord) for each in records_of(other)) for other in others),
        PATIENCE_S,
        "all controllers have the records",
    )
    assert shows(running(old).metadata, None), "the open transaction shows nothing"
    assert running(old).metadata.topics is before.topics
    if ends_in_vain:
        controller.append([EndTransactionRecord()])
        assert isinstance(records_of(old)[-1], EndTransactionRecord)
    old.kill()


@pytest.mark.parametrize("ends_in_vain", [False, True])
@pytest.mark.parametrize("dynamic", [True, False])
def test_the_next_controller_aborts_an_open_transaction(dynamic: bool, ends_in_vain: bool) -> None:
    async def story(loop: SimLoop) -> None:
        roles = dict.fromkeys((1, 2, 3), "controller")
        async with SimCluster(7, roles=roles, dynamic=dynamic) as cluster:
            watch = QuorumWatch()
            machines = list(cluster.nodes.values())

            def look() -> None:
                for machine in machines:
                    if machine.running is not None:
                        watch.check(machine.running)

            loop.on_turn.append(look)
            await cluster.start()
            old = await active(machines)
            others = [each for each in machines if each is not old]
            await leave_open(old, others, ends_in_vain=ends_in_vain)
            new = await active(others)
            await change(new, "2000")
            await old.start()
            await eventually(
                lambda: all(shows(running(each).metadata, "2000") for each in machines),
                PATIENCE_S,
                "all controllers have the change, and not the transaction",
            )
            for machine in machines:
                kinds = [type(each) for each in records_of(machine)]
                assert kinds.count(AbortTransactionRecord) == 1
                assert kinds.index(TopicRecord) < kinds.index(AbortTransactionRecord)
            assert watch.compared_images > 0

    simulate(5, story)


def test_a_transaction_that_stays_open_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change of the next controller would become a part of the transaction, and never show."""
    monkeypatch.setattr(Controller, "in_transaction", False)
    with pytest.raises(AssertionError):
        test_the_next_controller_aborts_an_open_transaction(dynamic=True, ends_in_vain=False)

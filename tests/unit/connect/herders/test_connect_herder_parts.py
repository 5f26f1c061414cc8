"""The parts of a herder in a group: leadership, fencing, restarts and rebalances."""

from __future__ import annotations

import asyncio

import pytest

from kcli.connect.errors import BadRequest, NotFound, NotLeader, RestError
from kcli.connect.model import ConnectorType, RestartRequest, State, TargetState, TaskId
from kcli.formats.connect.errors import ConnectException
from rigs.connect_herder import LEADER_URL, LoneHerder, lone_herder, steps
from rigs.loops import on_a_loop, until

FIRST, SECOND = TaskId("c", 0), TaskId("c", 1)


# Leadership.


@on_a_loop
async def test_a_leader_whose_write_failed_claims_the_config_topic_before_it_works_again() -> None:
    async with lone_herder(claims_config_topic=True) as it:
        await it.create("c", 1)
        await it.assign()
        assert it.log.claims == 1
        it.log.failures = 1
        with pytest.raises(ConnectException, match="can be safely retried"):
            await it.herder.stop_connector("c")
        await it.herder.stop_connector("c")
        assert it.log.claims == 2
        assert it.configs.state.target_states["c"] is TargetState.STOPPED


@on_a_loop
async def test_a_worker_that_is_no_leader_any_more_needs_no_claim() -> None:
    async with lone_herder(claims_config_topic=True) as it:
        await it.create("c", 1)
        await it.assign()
        it.log.failures = 1
        with pytest.raises(ConnectException):
            await it.herder.stop_connector("c")
        await it.assign(is_leader=False)
        await it.herder.ping()
        assert it.log.claims == 1


@on_a_loop
async def test_only_the_leader_writes_a_session_key() -> None:
    async with lone_herder() as it:
        await it.assign(is_leader=False)
        assert it.configs.state.session_key is None
        await it.assign()
        key = it.configs.state.session_key
        assert key is not None
        it.clock.ms += it.settings.session.key_ttl_ms
        await it.herder.ping()
        assert it.configs.state.session_key != key


@on_a_loop
async def test_a_request_for_the_leader_names_its_url() -> None:
    async with lone_herder() as it:
        await it.create("c", 1)
        await it.assign(is_leader=False)
        for request in (
            it.herder.stop_connector("c"),
            it.herder.delete("c"),
            it.herder.patch_config("c", {}),
        ):
            with pytest.raises(NotLeader) as caught:
                await request
            assert caught.value.url == LEADER_URL


@on_a_loop
async def test_each_new_leadership_is_reported_once() -> None:
    async with lone_herder() as it:
        leads: list[str] = []
        it.herder.on_lead = lambda: leads.append(it.membership.member_id)
        await it.assign(is_leader=False)
        assert leads == []
        await it.assign()
        await it.assign()
        assert len(leads) == 1
        await it.assign(is_leader=False)
        await it.assign()
        assert len(leads) == 2


# Configurations of tasks.


@on_a_loop
async def test_a_follower_sends_the_configurations_of_tasks_to_the_leader() -> None:
    async with lone_herder() as it:
        await it.put("c", 1)
        await it.configs.put_connector("c", {"name": "c", "tasks": "2"}, None)
        await it.assign("c", is_leader=False)
        await until(lambda: bool(it.requests.sent))
        assert it.requests.sent == [f"2 tasks of c to {LEADER_URL}"]
        assert len(it.configs.state.tasks["c"]) == 1


@on_a_loop
async def test_a_follower_writes_the_configurations_of_tasks_if_it_cannot_send_them() -> None:
    async with lone_herder(any_worker_writes_tasks=True) as it:
        await it.put("c", 1)
        await it.configs.put_connector("c", {"name": "c", "tasks": "2"}, None)
        await it.assign("c", is_leader=False)
        await until(lambda: len(it.configs.state.tasks["c"]) == 2)
        assert it.requests.sent == []


# Fencing.


@on_a_loop
async def test_tasks_that_start_together_fence_the_last_generation_once() -> None:
    async with lone_herder(exactly_once=True) as it:
        await it.create("c", 2)
        await it.assign(FIRST, SECOND)
        await until(lambda: len(it.engine.task_ids()) == 2)
        assert it.fenced == [["c-0", "c-1"]]
        assert it.configs.state.task_count_records["c"] == 2
        assert it.engine.refusals == []


@on_a_loop
async def test_a_fencing_that_new_task_configs_overtake_fails() -> None:
    async with lone_herder(exactly_once=True) as it:
        await it.create("c", 2)
        overtaking: list[asyncio.Task[None]] = []
        it.membership.is_sessioned = False
        it.on_fence = lambda: overtaking.append(asyncio.ensure_future(it.put("c", 1)))
        with pytest.raises(RestError, match="a new set of task configs was generated") as caught:
            await it.herder.fence_zombies("c", None)
        assert caught.value.status == 409


@on_a_loop
async def test_a_worker_asks_the_leader_for_the_fencing() -> None:
    async with lone_herder(exactly_once=True) as it:
        await it.create("c", 1)
        await it.assign(FIRST, is_leader=False)
        await until(lambda: len(it.engine.task_ids()) == 1)
        assert it.requests.sent == [f"fence c at {LEADER_URL}"]
        assert it.fenced == []


@on_a_loop
async def test_a_sink_is_not_fenced() -> None:
    async with lone_herder(exactly_once=True) as it:
        await it.create("c", 1)
        it.engine.kind = ConnectorType.SINK
        await it.assign(FIRST)
        await until(lambda: len(it.engine.task_ids()) == 1)
        it.membership.is_sessioned = False
        with pytest.raises(BadRequest, match="Connector c is not a source connector"):
            await it.herder.fence_zombies("c", None)


@on_a_loop
async def test_a_task_that_was_revoked_during_its_start_does_not_run() -> None:
    async with lone_herder(exactly_once=True) as it:
        await it.create("c", 1)
        it.engine.hold = asyncio.Event()
        await it.assign(FIRST)
        await it.membership.listener.revoked([], [FIRST])
        await it.assign()
        it.engine.hold.set()
        await steps()
        assert it.engine.refusals == [
            "Cannot start source task c-0 as it has already been revoked from this worker"
        ]


@on_a_loop
async def test_a_task_of_an_old_generation_does_not_run() -> None:
    async with lone_herder(exactly_once=True) as it:
        await it.create("c", 1)
        it.engine.hold = asyncio.Event()
        await it.assign(FIRST)
        await it.put("c", 2)
        it.engine.hold.set()
        await steps()
        await it.assign(FIRST)
        await steps()
        assert "already generated a new set of task configs" in it.engine.refusals[0]


# Restarts.


@on_a_loop
async def test_the_owner_restarts_its_work_and_others_name_the_owner() -> None:
    async with lone_herder() as it:
        await it.create("c", 2)
        await it.assign("c", FIRST)
        it.engine.calls.clear()
        await it.herder.restart_task(FIRST)
        await it.herder.restart_connector("c")
        await steps()
        assert it.engine.calls == ["stop c-0", "start c-0", "stop c", "start c"]
        it.membership.owners[SECOND] = "http://third/"
        with pytest.raises(NotLeader) as caught:
            await it.herder.restart_task(SECOND)
        assert caught.value.url == "http://third/"
        with pytest.raises(NotFound, match="Unknown task: c-7"):
            await it.herder.restart_task(TaskId("c", 7))
        with pytest.raises(NotFound, match="Unknown connector: d"):
            await it.herder.restart_connector("d")


@on_a_loop
async def test_a_restart_of_everything_reaches_only_the_work_of_this_worker() -> None:
    async with lone_herder() as it:
        await it.create("c", 2)
        await it.assign("c", FIRST)
        it.engine.calls.clear()
        state = await it.herder.restart(RestartRequest("c", only_failed=False, include_tasks=True))
        await steps()
        assert state.connector.state is State.RESTARTING
        assert it.engine.calls == ["stop c", "stop c-0", "start c", "start c-0"]


# Rebalances.


@on_a_loop
async def test_new_task_configs_stop_the_tasks_and_the_next_assignment_starts_them() -> None:
    async with lone_herder() as it:
        await it.create("c", 1)
        await it.assign("c", FIRST)
        it.engine.calls.clear()
        await it.put("c", 1)
        await steps()
        assert it.engine.calls == ["stop c", "stop c-0", "start c"]
        assert it.membership.rejoins == ["connectors or tasks have changed"]
        await it.assign("c", FIRST)
        assert it.engine.calls[-1] == "start c-0"


@on_a_loop
async def test_an_eager_group_stops_nothing_before_the_rebalance() -> None:
    async with lone_herder() as it:
        it.membership.is_eager = True
        await it.create("c", 1)
        await it.assign("c", FIRST)
        it.engine.calls.clear()
        await it.put("c", 1)
        await steps()
        assert it.engine.calls == []
        assert it.membership.rejoins == ["connectors or tasks have changed"]


@on_a_loop
async def test_a_worker_that_cannot_read_the_config_topic_gives_up_its_work_at_last() -> None:
    async with lone_herder() as it:
        await it.create("c", 1)
        await it.assign(FIRST)
        it.log.is_slow = True
        for _ in range(6):
            assert it.membership.gave_up == 0
            await it.assign(FIRST, offset=it.configs.state.offset + 1)
            it.clock.ms += it.settings.rebalance_delay_max_ms
            await _wake(it)
        assert it.membership.gave_up == 1
        assert it.engine.calls[-1] == "stop c-0"
        assert set(it.membership.rejoins) == {"the worker could not read the config topic to its end"}


@on_a_loop
async def test_a_delay_of_the_leader_ends_with_another_rebalance() -> None:
    async with lone_herder() as it:
        await it.assign(delay_ms=60_000)
        assert it.herder.rebalance_delay_ms == 60_000
        it.clock.ms += 60_000
        await _wake(it)
        assert it.membership.rejoins == ["the scheduled rebalance delay is over"]


async def _wake(it: LoneHerder) -> None:
    """Lets the herder look at the clock, as at the end of its wait."""
    waiting = asyncio.create_task(it.herder.ping())
    await steps()
    waiting.cancel()

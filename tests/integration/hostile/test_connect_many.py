"""A worker with thousands of connectors: lists and metrics take many turns of the event loop, and few calls in each."""

from __future__ import annotations

import json
from pathlib import Path

from kcli.connect.config.plugin import CLASSPATH, Plugin, PluginType
from kcli.connect.decisions.offset_records import offset_key
from kcli.connect.model import CONNECTOR, ConnectorType, State, Status, TaskId
from kcli.connect.workers.metrics import EngineMetrics
from kcli.runtime.network import SystemNetwork
from kcli.server.beans.exposition.program_endpoint import MetricsServer
from rigs.connect_programs import request, standalone
from rigs.loops import on_a_loop
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter

CONNECTORS = 3000


@on_a_loop
async def test_a_list_with_details_takes_many_turns(tmp_path: Path) -> None:
    async with standalone(tmp_path) as it:
        herder = it.worker.herder
        for number in range(CONNECTORS):
            name = f"c{number}"
            config = {"name": name, "connector.class": "FileStreamSource", "topic": "t"}
            await herder._configs.put_connector(name, config, None)
            herder._statuses.put(TaskId(name, CONNECTOR), Status(State.RUNNING, "w", 0))
            herder._statuses.put(TaskId(name, 0), Status(State.RUNNING, "w", 0))
        with TurnCounter() as counter:
            assert it.rest.last_active == 0
            answer = await it.request("GET", "/connectors?expand=status&expand=info")
            assert it.rest.last_active > 0
        listed = json.loads(answer.body)
        assert len(listed) == CONNECTORS
        assert listed["c7"]["info"]["config"]["topic"] == "t"
        assert listed["c7"]["status"]["tasks"] == [
            {"id": 0, "state": "RUNNING", "worker_id": "w", "version": None}
        ]
        assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX


@on_a_loop
async def test_the_offsets_of_many_partitions_take_many_turns(tmp_path: Path) -> None:
    async with standalone(tmp_path) as it:
        config = {"name": "c", "connector.class": "FileStreamSource", "topic": "t"}
        await it.worker.herder._configs.put_connector("c", config, None)
        keys = [offset_key("c", {"filename": str(number)}) for number in range(10 * CONNECTORS)]
        store = await it.worker._offsets_of(config)
        await store.put(dict.fromkeys(keys, b'{"position":1}'))
        with TurnCounter() as counter:
            answer = await it.request("GET", "/connectors/c/offsets")
        assert len(json.loads(answer.body)["offsets"]) == len(keys)
        assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX


@on_a_loop
async def test_metrics_of_many_tasks_take_many_turns() -> None:
    metrics = EngineMetrics()
    plugin = Plugin("x.Source", "x:Source", PluginType.SOURCE, "1", CLASSPATH)
    names = [f"c{number}" for number in range(CONNECTORS)]
    tasks = [TaskId(name, 0) for name in names]
    for id in tasks:
        metrics.add_connector(id.connector, plugin, ConnectorType.SOURCE)
        metrics.set_state(id, State.RUNNING)
        metrics.merge_report(id, {"source-task-metrics": {"source-record-poll-total": 5}})
    server = MetricsServer(lambda: metrics.beans(names, tasks), SystemNetwork(), "127.0.0.1", 0)
    await server.start()
    try:
        for path, line in (
            (
                "/metrics",
                b'kafka_connect_source_task_metrics_source_record_poll_total{connector="c7",task="0"} 5',
            ),
            ("/jmx", b'"kafka.connect:type=connect-worker-metrics,connector=c7"'),
        ):
            with TurnCounter() as counter:
                answer = await request(server.port, "GET", path)
            assert line in answer.body
            assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX
    finally:
        await server.stop()

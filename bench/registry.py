"""Measures a schema registry with many schemas: registrations, look-ups, the next start, and the memory.

    python bench/registry.py [--schemas 10000] [--look-ups 5000] [--url URL --pid PID]

One client sends one request after another on one connection. Each schema is an Avro record of its own subject. With
--url, another registry is measured, such as Karapace, and --pid is its process. The start with all schemas is only
measured for a registry that is started here. The last lines are JSON, one line per figure.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from measure import HEADER, Bench, cpu_s, print_json, processes, resident_mb, running

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rigs.registry_process import RegistryProcess

TIMEOUT_S = 60.0
FIELDS = 10
START_GOAL_S, LOOK_UP_GOAL_MS, MEMORY_GOAL_MB = 5.0, 2.0, 200.0
"""The goals for 10,000 schemas."""
TYPE = "application/vnd.schemaregistry.v1+json"


class Measured:
    """A registry, by its URL and its process."""

    def __init__(self, bench: Bench, url: str, pid: int) -> None:
        self._bench = bench
        self._pid = pid
        place = urlsplit(url)
        assert place.hostname is not None
        self._connection = http.client.HTTPConnection(place.hostname, place.port or 80, timeout=TIMEOUT_S)

    def fill(self, schemas: int) -> list[int]:
        """Registers schemas. Returns their ids."""
        ids: list[int] = []

        def register(number: int) -> None:
            answer = self._call("POST", f"/subjects/s{number}-value/versions", {"schema": schema(number)})
            schema_id = answer["id"]
            assert isinstance(schema_id, int), answer
            ids.append(schema_id)

        self._measure("registration", schemas, register)
        assert len(set(ids)) == schemas, "each schema has an id of its own"
        return ids

    def look_up(self, ids: list[int], count: int) -> None:
        def by_id(number: int) -> None:
            self._call("GET", f"/schemas/ids/{ids[number * 7919 % len(ids)]}")

        def by_schema(number: int) -> None:
            nth = number * 7919 % len(ids)
            self._call("POST", f"/subjects/s{nth}-value", {"schema": schema(nth)})

        goal = f"<= {LOOK_UP_GOAL_MS:g} ms"
        self._measure("look-up by id", count, by_id, goal)
        self._measure("look-up by schema", count, by_schema, goal)

    def memory(self) -> None:
        self._bench.add("memory", resident_mb(self._pid), "MB", f"<= {MEMORY_GOAL_MB:g} MB")

    def _measure(self, name: str, count: int, work: Callable[[int], None], goal: str = "") -> None:
        before_s = self.cpu_s()
        times = []
        for number in range(count):
            start = time.perf_counter()
            work(number)
            times.append(time.perf_counter() - start)
        used_s = self.cpu_s() - before_s
        times.sort()
        self._bench.add(f"{name}: half", times[count // 2] * 1e3, "ms", goal)
        self._bench.add(f"{name}: 99 of 100", times[count * 99 // 100] * 1e3, "ms")
        self._bench.add(f"{name}: registry CPU", used_s / count * 1e3, "CPU-ms")

    def cpu_s(self) -> float:
        """The CPU seconds that the registry has used so far."""
        return sum(map(cpu_s, processes(self._pid)))

    def _call(self, method: str, path: str, body: object = None) -> dict[str, object]:
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, {"Content-Type": TYPE, "Accept": TYPE})
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        assert response.status == 200, answer
        assert isinstance(answer, dict), answer
        return answer


def schema(number: int) -> str:
    fields = [{"name": f"field{nth}", "type": ["null", "string"], "default": None} for nth in range(FIELDS)]
    return json.dumps({"type": "record", "name": f"Record{number}", "namespace": "bench", "fields": fields})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schemas", type=int, default=10_000)
    parser.add_argument("--look-ups", type=int, default=5_000)
    parser.add_argument("--url", help="measure this registry, instead of one that is started here")
    parser.add_argument("--pid", type=int, help="the process of that registry")
    options = parser.parse_args()
    print(HEADER)
    with running() as bench, tempfile.TemporaryDirectory(prefix="kcli-bench-registry-") as directory:
        if options.url:
            measured = Measured(bench, options.url, options.pid)
            measured.look_up(measured.fill(options.schemas), options.look_ups)
            measured.memory()
        else:
            _own(bench, Path(directory), options.schemas, options.look_ups)
        print_json(bench.figures)


def _own(bench: Bench, directory: Path, schemas: int, look_ups: int) -> None:
    registry = RegistryProcess(directory, bench.broker.bootstrap)
    registry.start()
    try:
        ids = _measured(bench, registry).fill(schemas)
        registry.stop()
        start = time.perf_counter()
        registry.start()
        bench.add("start with all schemas", time.perf_counter() - start, "s", f"<= {START_GOAL_S:g} s")
        measured = _measured(bench, registry)
        bench.add("start with all schemas: registry CPU", measured.cpu_s(), "CPU-s")
        measured.look_up(ids, look_ups)
        measured.memory()
    finally:
        registry.stop()


def _measured(bench: Bench, registry: RegistryProcess) -> Measured:
    assert registry.process is not None, "started"
    return Measured(bench, registry.url, registry.process.pid)


if __name__ == "__main__":
    main()

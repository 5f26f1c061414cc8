"""Makes faults in a real cluster, one after another: kills, pauses, cuts, full disks and restarts. Some faults hit two
nodes at the same time.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from enum import Enum

from simulation.histories.cluster import HALT_S, NODES, FaultyCluster
from simulation.histories.recorder import Recorder

POLL_S = 0.05
CALM_S = 6.0
"""The longest time between two faults, in seconds."""
FAULT_S = 10.0
"""The longest duration of a fault in seconds. It is longer than the session time-outs of brokers and members."""


class Fault(Enum):
    KILL = "kill"
    PAUSE = "pause"
    CUT = "cut"
    DISK = "disk"
    RESTART = "restart"


class Faults:
    """Makes faults of the chosen kinds until the clients stop, and then ends all faults."""

    def __init__(
        self,
        cluster: FaultyCluster,
        recorder: Recorder,
        rng: random.Random,
        kinds: tuple[Fault, ...],
        note: Callable[[str], None],
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._cluster, self._recorder, self._rng, self._kinds, self._note = (
            cluster,
            recorder,
            rng,
            kinds,
            note,
        )

    def run(self, until: float) -> None:
        while time.monotonic() < until and not self._recorder.is_stopping:
            self._wait(self._rng.random() * CALM_S, until)
            if time.monotonic() < until:
                self.happen(self._rng.choice(self._kinds))
        self.heal()

    def happen(self, kind: Fault) -> None:
        """Makes one fault, waits, and ends the fault."""
        self.counts[kind.value] += 1
        match kind:
            case Fault.KILL:
                self._kill()
            case Fault.PAUSE:
                self._pause()
            case Fault.CUT:
                self._cut()
            case Fault.DISK:
                self._fill()
            case Fault.RESTART:
                self._restart()
        self.heal()

    def heal(self) -> None:
        """Ends all faults. When this method returns, all nodes run and are ready."""
        for node_id in NODES:
            self._cluster.go_on(node_id)
        self._cluster.links.mend(resets=self._rng.random() < 0.5)
        for node_id in NODES:
            if not self._cluster.runs(node_id):
                self._cluster.free_disk(node_id)
                self._cluster.start(node_id)

    def _victims(self) -> list[int]:
        """Chooses the nodes for a fault: mostly one node, sometimes two."""
        return self._rng.sample(NODES, 2 if self._rng.random() < 0.25 else 1)

    def _duration(self) -> float:
        return self._rng.choice((0.3, 2.0, FAULT_S)) * (0.5 + self._rng.random() / 2)

    def _kill(self) -> None:
        victims = self._victims()
        self._note(f"kill -9 of {victims}")
        for node_id in victims:
            self._cluster.kill(node_id)
        time.sleep(self._duration() / 2)

    def _pause(self) -> None:
        victims, seconds = self._victims(), self._duration()
        self._note(f"pause of {victims} for {seconds:.1f} s")
        for node_id in victims:
            self._cluster.pause(node_id)
        time.sleep(seconds)

    def _cut(self) -> None:
        victim, seconds = self._rng.choice(NODES), self._duration()
        others = [each for each in NODES if each != victim]
        if self._rng.random() < 0.4:
            others = [self._rng.choice(others)]
        speaks, hears = self._rng.choice(((False, False), (False, False), (True, False), (False, True)))
        self._note(
            f"cut between {victim} and {others}, speaks: {speaks}, hears: {hears}, for {seconds:.1f} s"
        )
        for other in others:
            if not speaks:
                self._cluster.links.cut(victim, other)
            if not hears:
                self._cluster.links.cut(other, victim)
        time.sleep(seconds)

    def _fill(self) -> None:
        """Fills the disk of a node, and waits until the node has halted. A node must halt if it cannot write to its
        disk."""
        victim = self._rng.choice(NODES)
        self._note(f"full disk of {victim}")
        self._cluster.fill_disk(victim)
        deadline = time.monotonic() + HALT_S
        while self._cluster.runs(victim) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        self._note(f"{victim} has {'not halted' if self._cluster.runs(victim) else 'halted'}")
        time.sleep(self._duration() / 2)
        self._cluster.free_disk(victim)

    def _restart(self) -> None:
        victim = self._rng.choice(NODES)
        self._note(f"controlled restart of {victim}")
        self._cluster.stop(victim)

    def _wait(self, seconds: float, until: float) -> None:
        self._recorder.stopping.wait(min(seconds, max(0.0, until - time.monotonic())))

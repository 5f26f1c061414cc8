"""A source connector for plugin.path whose tasks count, and note in a file from when to when each process has run.

It imports no other rig, because a worker loads a copy of this file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from kcli.config.definition import ConfigDef
from kcli.connectors.interface import Config, SourceConnector, SourceTask
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.schema import Schema, SchemaType

STRING = Schema(SchemaType.STRING)
POLL_SECONDS = 0.05


class LeaseTask(SourceTask):
    """Sends "<connector>:0", "<connector>:1" and so on. The file of a process has two times of the monotonic clock."""

    def start(self, config: Config) -> None:
        self.name = str(config["name"])
        offset = self.context.offsets.offset({"name": self.name})
        self.next = 0 if offset is None else int(str(offset["n"])) + 1
        self.began_s = time.monotonic()
        file = Path(str(config["directory"]), f"{self.name}@{os.getpid()}@{self.began_s}")
        self.file = os.open(file, os.O_CREAT | os.O_WRONLY)

    def _note(self) -> None:
        os.pwrite(self.file, f"{self.began_s:20.6f} {time.monotonic():20.6f}".encode(), 0)

    def poll(self) -> Sequence[SourceRecord] | None:
        self._note()
        time.sleep(POLL_SECONDS)
        self._note()
        number, self.next = self.next, self.next + 1
        text = f"{self.name}:{number}"
        return [SourceRecord({"name": self.name}, {"n": number}, "leases", text, STRING, self.name, STRING)]


class LeaseSource(SourceConnector):
    version = "1.0"
    config_def = ConfigDef(())
    task_class = LeaseTask

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [self.config]

    def exactly_once_support(self, config: Config) -> bool | None:
        return True

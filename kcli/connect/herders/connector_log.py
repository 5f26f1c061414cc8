"""The last log lines of each connector, which `kcli connect logs` shows."""

from __future__ import annotations

import logging
import re
from collections import OrderedDict, deque
from collections.abc import Sequence

from kcli.runtime.log_text import name

LINES_MAX = 200
"""The lines of a connector that are kept."""

LINE_CHARACTERS_MAX = 2_000
"""The longest line that is kept whole. A trace of an error has some hundred characters a frame."""

CONNECTORS_MAX = 1_000
"""The connectors whose lines are kept. With more, the lines of the connector that was silent longest go."""

_CONTEXT = re.compile(r"\[(.+)\|(?:task-[0-9]+(?:\|offsets)?|worker)\] ", re.ASCII)


class ConnectorLog(logging.Handler):
    """Keeps lines that begin with a connector's context, such as `[orders|task-0]`."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: OrderedDict[str, deque[str]] = OrderedDict()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s (%(name)s)"))

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        match = _CONTEXT.match(message)
        if match is None:
            return
        lines = self._lines.setdefault(match.group(1), deque(maxlen=LINES_MAX))
        self._lines.move_to_end(match.group(1))
        lines.append(self.format(record)[:LINE_CHARACTERS_MAX])
        if len(self._lines) > CONNECTORS_MAX:
            self._lines.popitem(last=False)

    def lines(self, connector: str) -> Sequence[str]:
        return list(self._lines.get(name(connector), ()))

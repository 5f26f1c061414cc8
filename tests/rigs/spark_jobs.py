"""Checkpoints as Spark's streaming queries write them, and a server with Spark's REST API."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

QUERY = "3f2c0e0e-9f0f-4f43-8a55-0b9bd5a8b6b1"
BATCH_MS = 1_700_000_000_000


def checkpoint(
    directory: Path, *sources: object, batch: int = 7, planned: int | None = None, id: str = QUERY
) -> Path:
    """Writes a checkpoint as Spark does. `planned` is a micro-batch that is not done."""
    for name in ("offsets", "commits"):
        (directory / name).mkdir(parents=True)
    (directory / "metadata").write_text(json.dumps({"id": id}))
    times = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": BATCH_MS, "conf": {}})
    for number in (batch - 1, batch, planned):
        if number is not None:
            lines = ["v1", times, *(json.dumps(each) for each in sources)]
            (directory / "offsets" / str(number)).write_text("\n".join(lines))
            (directory / "offsets" / f".{number}.crc").write_text("")
    (directory / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return directory


@contextmanager
def spark_server(answers: dict[str, Any]) -> Iterator[str]:
    """A server that answers with these values as JSON, or with these bytes, by path. Gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

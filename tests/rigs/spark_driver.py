"""The metrics of a Spark driver, for tests of dashboards without Spark.

`spark_driver_metrics.txt` is an answer of the Prometheus servlet of a driver of PySpark 4 with
`spark.ui.prometheus.enabled=true`, recorded while a job was running: two tasks were active, one task had failed, and a
shuffle was done.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SPARK_PATH = "/metrics/executors/prometheus"
CONTENT_TYPE = "text/plain;charset=utf-8"
"""The header that the servlet sends."""
RECORDED = Path(__file__).with_name("spark_driver_metrics.txt")


@contextmanager
def recorded_spark_driver() -> Iterator[str]:
    """Serves the recorded answer, and yields the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Servlet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Servlet(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = RECORDED.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Writes no line for each request."""

"""One Spark session for all tests of a run, and topics on the shared broker."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.spark.command_line import SubmitError
from kcli.spark.submit import check_java, worker_python, write_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.testing.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parents[2]


def missing() -> str | None:
    """Why Spark cannot run here, or None."""
    for module in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    try:
        check_java()
    except SubmitError as error:
        return str(error)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Marks the tests of Spark before pytest selects tests by their marks, and puts them first after all tests are
    shuffled. Then the first of several workers runs nearly all of them, and the others need no virtual machine."""
    reason = missing()
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.spark)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))
    yield
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session set up as `kcli spark-submit` does it; C1 only, because tests never get warm."""
    from pyspark.sql import SparkSession

    directory = tmp_path_factory.mktemp("spark")
    write_conf(directory / "conf", directory / "none", is_local=True)
    patch = pytest.MonkeyPatch()
    patch.setenv("SPARK_CONF_DIR", str(directory / "conf"))
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    patch.setenv("PYSPARK_PYTHON", str(worker_python(directory, path)))
    patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    patch.setenv("PYTHONPATH", path)
    patch.delenv("SPARK_HOME", raising=False)
    jvm = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    patch.setenv("PYSPARK_SUBMIT_ARGS", f'--driver-java-options "{jvm}" pyspark-shell')
    builder = SparkSession.builder.master("local[2,4]").appName("kcli tests")
    # Spark replaces the handler of Ctrl-C. With Spark's handler, asyncio would not turn Ctrl-C into a cancellation in
    # the tests that follow in this process.
    handler = signal.getsignal(signal.SIGINT)
    session = builder.config("spark.sql.warehouse.dir", str(directory / "warehouse")).getOrCreate()
    signal.signal(signal.SIGINT, handler)
    yield session
    session.stop()
    patch.undo()


@pytest.fixture
def topic(broker: BrokerProcess) -> Callable[..., str]:
    """Makes a topic with its own name."""
    from confluent_kafka.admin import AdminClient, NewTopic

    def make(partitions: int = 1, prefix: str = "t") -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        return name

    return make


@pytest.fixture
def kcli_program(tmp_path: Path) -> list[str]:
    """`kcli` as a command, for tests that need a process."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from kcli.cli.main import main; main()"
    assert shutil.which(sys.executable)
    return [sys.executable, "-c", code]

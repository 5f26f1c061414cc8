"""Finds Spark in the PySpark package and runs jobs with it, without any set-up by the user.

`submit` makes a configuration for the run, with kcli's defaults and a quiet log, and
starts Spark with this interpreter. Every setting of the user takes precedence over these defaults.

A file of the user runs with the real spark-submit. A built-in job also runs with the real spark-submit if its driver
runs in the cluster. For all other built-in jobs, the driver is a Python process that starts the JVM, as in the
`pyspark` shell. With spark-submit, a Python driver would have no stdin, would get no signals, and would write stdout
and stderr to the same pipe.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from types import FrameType

from kcli.model.java_text import parse_int
from kcli.spark.command_line import CommandLine, SubmitError

JOBS = {
    "export": "topics to Parquet, JSON, CSV or text files, or to Delta or Iceberg tables",
    "ingest": "files of text, CSV, JSON or Parquet, or the rows of a database, to a topic",
    "transform": "the rows of a SQL query over topics, to a topic",
    "sql": "SQL over topics: in a shell, from the command line or from a file",
    "replay": "a range of records to another topic or cluster",
    "profile": "statistics of topics (sizes, keys, gaps, rates), as a table and a page with charts",
}
PREPARE = "prepare"
"""If this argument is given instead of a job, the command makes the archive of Java classes for faster starts."""

SPARK_LOG = "KCLI_SPARK_LOG"
"""The environment variable that contains the path of the file for Spark's own log."""

SPARK_BEGAN = "KCLI_SPARK_BEGAN"
"""The environment variable that contains the time at which the user has started the job, as `time.monotonic`."""

PLANNED = "KCLI_SPARK_PLANNED"
"""The environment variable that is set if the command line has checked the job with its plan."""

CLUSTER_MODE = "cluster"
"""The value of --deploy-mode with which the driver runs in the cluster."""

MIN_JAVA = 17
"""The oldest Java that Spark 4 supports."""

STOP_SECONDS = 60.0
"""The seconds in which a stopped job may finish its micro-batch. After this time, it is killed."""

DEFAULTS = {
    # With a lower limit, Spark would compute the size of each row. This is slow, and for rows with headers the time
    # even grows with the square of the number of rows.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    # Spark must keep all progress reports, because the summary of a stream adds up the reports of its micro-batches.
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
LOCAL_DEFAULTS = {
    "spark.master": "local[*,4]",  # Spark repeats failed tasks; with local[*] it would not
    "spark.sql.shuffle.partitions": "8",
}

LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""

QUIET_LOGGERS = (
    "org.apache.hadoop.util.NativeCodeLoader",  # warns that native code is missing, which is no problem
    # This logger warns that adaptive execution is off in streams.
    "org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream",
    "org.apache.spark.util.Utils",  # warns about the address of a local driver
)


def spark_home() -> Path:
    """Returns the directory of the PySpark package. Raises SubmitError if a required package is missing."""
    for module in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(module) is None:
            raise SubmitError(f"{module} is not installed: pip install 'kcli-streaming[spark]'")
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    if not (home / "bin" / "spark-submit").exists():
        raise SubmitError(f"PySpark in {home} has no bin/spark-submit: pip install 'kcli-streaming[spark]'")
    return home


def _java() -> str | None:
    """Returns the path of the `java` that Spark will run."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def check_java() -> None:
    """Checks the `java` that Spark will run. Raises SubmitError if it is missing or too old."""
    advice = f"install Java {MIN_JAVA} or newer (package openjdk-{MIN_JAVA}-jre-headless) or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")
    java = _java()
    if java is None or not os.access(java, os.X_OK):
        where = (
            f"JAVA_HOME is {home}, which has no bin/java"
            if home
            else "Spark needs Java, which is not installed"
        )
        raise SubmitError(f"{where}: {advice}")
    version = java_version(java)
    if version < MIN_JAVA:
        raise SubmitError(f"{java} is Java {version}, too old for Spark: {advice}")


def java_version(java: str) -> int:
    """Returns the feature release (8, 17, …) of a Java runtime.

    If possible, reads the release file of the JDK, because no JVM is needed to read this file.
    """
    release = Path(os.path.realpath(java)).parent.parent / "release"
    text = release.read_text() if release.is_file() else ""
    match = re.search(r'JAVA_VERSION="([^"]+)"', text)
    if match is None:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        match = re.search(r'version "([^"]+)"', done.stderr)
    if match is None:
        raise SubmitError(f"{java} reports no version: it may not be a Java runtime")
    numbers = [parse_int(part) for part in re.findall(r"[0-9]{1,9}", match[1])]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def job_code(job: str) -> str:
    """Returns Python code that runs a built-in job.

    Python cannot run the job's file directly, because modules in the same folder would hide modules of the standard
    library.
    """
    return f"from kcli.spark.driver import drive; drive({job!r})"


def job_file(job: str, directory: Path) -> str:
    """Returns the path or URI of the job's file. For a built-in job, writes this file to `directory`."""
    if job in JOBS:
        file = directory / f"kcli_{job}.py"
        file.write_text(job_code(job) + "\n")
        return str(file)
    if "://" not in job and not os.path.exists(job):
        known = ", ".join(JOBS)
        raise SubmitError(f"there is no file {job}, and it is not a built-in job ({known})")
    return job


def submit(line: CommandLine, *, is_planned: bool = False) -> int:
    """Runs Spark and returns its exit code. Raises SubmitError if Spark cannot start.

    If `is_planned` is True, the plan of a built-in job has been made, and the driver need not make it again.
    """
    home = spark_home()
    check_java()
    line.check_master()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kcli-spark-") as directory:
        line, environment = _prepared(line, home, Path(directory))
        starts_job = line.value("--deploy-mode") != CLUSTER_MODE and not line.asks_version
        if line.job is not None and line.job in JOBS and starts_job:
            environment["PYSPARK_SUBMIT_ARGS"] = shlex.join([*line.spark, "pyspark-shell"])
            environment[SPARK_BEGAN] = str(began)
            if is_planned:
                environment[PLANNED] = "1"
            driver = [environment["PYSPARK_DRIVER_PYTHON"], "-P", "-c", job_code(line.job), *line.arguments]
            if line.shows_spark_log:
                return _run(driver, environment, is_ours=True)
            return _run_quietly(driver, environment)
        command = [str(home / "bin" / "spark-submit"), *line.spark]
        if line.job is not None:
            command += [job_file(line.job, Path(directory)), *line.arguments]
        return _run(command, environment, is_ours=False)


def _prepared(line: CommandLine, home: Path, directory: Path) -> tuple[CommandLine, dict[str, str]]:
    """Prepares a run in `directory`. Returns the command line and the environment for spark-submit, the driver and the
    workers.
    """
    path = os.pathsep.join(filter(None, (_own_root(), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "SPARK_HOME": str(home)}
    line = _configured(line, home, directory, environment)
    if path:
        environment["PYTHONPATH"] = path
    environment.setdefault("PYSPARK_DRIVER_PYTHON", os.environ.get("PYSPARK_PYTHON", sys.executable))
    if line.is_local:
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        environment.setdefault("PYSPARK_PYTHON", str(worker_python(directory, path)))
        return line, environment
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    return line.with_files(str(packed(directory))), environment


def _configured(line: CommandLine, home: Path, directory: Path, environment: dict[str, str]) -> CommandLine:
    """Adds kcli's defaults to the configuration. The user's settings override them.

    If the user has a configuration directory, Spark gets a copy of it with the defaults. Without such a directory, the
    defaults are passed as a properties file. With a directory, the JVM would ignore the archive of classes, because a
    directory with files would be on its class path.
    """
    conf = directory / "conf"
    conf_directory = os.environ.get("SPARK_CONF_DIR")
    users = Path(conf_directory) if conf_directory else home / "conf"
    write_conf(conf, users, is_local=line.is_local)
    line, secrets = line.without_secrets()
    settings = conf / "spark-defaults.conf"
    if users.is_dir():
        environment["SPARK_CONF_DIR"] = str(conf)
        if line.value("--properties-file") is None:
            _append(settings, secrets)
            return line
        own = directory / "settings.conf"  # the user's file may be a pipe, which has been read
        _append(own, line.settings + secrets)
        line = line.with_settings(own)
        # With this option our defaults apply in addition to the user's file.
        return replace(line, spark=(*line.spark, "--load-spark-defaults"))
    _append(settings, line.settings + secrets)  # if a key has several lines, Spark uses the last one
    options = [environment.get("SPARK_SUBMIT_OPTS"), f"-Dlog4j2.configurationFile={conf}/log4j2.properties"]
    archive = class_archive(home)
    if archive.exists():
        options += [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    environment["SPARK_SUBMIT_OPTS"] = " ".join(filter(None, options))
    return line.with_settings(settings)


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def class_archive(home: Path) -> Path:
    """Returns the path of the archive of classes (AppCDS). Each combination of versions of Spark and Java has its own
    archive."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    places = f"{home}\0{os.path.realpath(_java() or '')}"
    version = importlib.metadata.version("pyspark") if importlib.util.find_spec("pyspark") else "none"
    return cache / "kcli" / f"spark-{version}-{zlib.crc32(places.encode()):08x}.jsa"


def prepare() -> Path:
    """Makes the archive of classes. To do this, runs a small job whose JVM saves the classes that it has loaded."""
    home = spark_home()
    check_java()
    archive = class_archive(home)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kcli-spark-", dir=archive.parent) as directory:
        made, script = Path(directory) / "made.jsa", Path(directory) / "job.py"
        script.write_text(SMALL_JOB)
        line, environment = _prepared(CommandLine((), None, ()), home, Path(directory))
        if environment.get("SPARK_CONF_DIR") is not None:
            raise SubmitError(
                "Spark has a configuration directory (SPARK_CONF_DIR), and with one its JVM uses no archive"
            )
        log = f"-Dlog4j2.configurationFile={directory}/conf/log4j2.properties"
        quiet = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:disable -Xlog:all=error:stderr"
        environment["SPARK_SUBMIT_OPTS"] = f"{log} {quiet} -XX:ArchiveClassesAtExit={made}"
        command = [str(home / "bin" / "spark-submit"), *line.spark, str(script)]
        code = subprocess.run(command, env=environment, check=False).returncode
        if code or not made.exists():
            raise SubmitError(f"Spark ended with exit code {code} and wrote no archive of its classes")
        made.replace(archive)
    return archive


SMALL_JOB = """\
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.range(1000).selectExpr("id % 7 as k", "to_json(struct(id)) as v")
rows.mapInArrow(lambda batches: batches, rows.schema).groupBy("k").count().collect()
spark.stop()
"""


def packed(directory: Path) -> Path:
    """Makes a zip of kcli for `--py-files`, so that executors on other machines have the same code."""
    root = Path(__file__).resolve().parents[2]
    zipped = directory / "kcli.zip"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in ("kcli", "pyspark_kcli"):
            for file in sorted((root / package).rglob("*.py")):
                archive.write(file, file.relative_to(root))
                # The zip also has compiled modules, so that workers need not compile the modules. Other versions of
                # Python ignore the compiled modules.
                compiled = Path(importlib.util.cache_from_source(str(file)))
                if compiled.exists():
                    archive.write(compiled, file.relative_to(root).with_suffix(".pyc"))
    return zipped


def _own_root() -> str | None:
    """Returns the directory that contains kcli, or None if kcli is installed with the interpreter's packages, where
    workers find it.
    """
    root = str(Path(__file__).resolve().parents[2])
    return None if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) else root


def worker_python(directory: Path, path: str) -> Path:
    """Makes a script that runs this interpreter without Spark's own PYTHONPATH.

    With this script, workers load PySpark from the installed package, whose modules are compiled. If workers loaded
    PySpark from Spark's zip, every worker would compile the modules again, which takes 4 s.
    """
    script = directory / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={_quoted(path)} exec {_quoted(sys.executable)} "$@"\n')
    script.chmod(0o700)
    return script


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def write_conf(conf: Path, users: Path, *, is_local: bool) -> None:
    """Makes Spark's configuration directory from kcli's defaults, the user's settings and the user's other files.

    The user's settings override the defaults.
    """
    conf.mkdir()
    settings = DEFAULTS | (LOCAL_DEFAULTS if is_local else {})
    lines = [f"{key} {value}" for key, value in settings.items()]
    if users.is_dir():
        for path in users.iterdir():
            if path.name != "spark-defaults.conf":
                (conf / path.name).symlink_to(path.resolve())
        defaults = users / "spark-defaults.conf"
        if defaults.is_file():
            lines.append(defaults.read_text())  # if a key has several lines, Spark uses the last one
    (conf / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    if not any((conf / name).exists() for name in ("log4j2.properties", "log4j2.xml", "log4j2.yaml")):
        (conf / "log4j2.properties").write_text(LOG4J + "".join(map(_quiet, enumerate(QUIET_LOGGERS))))


def _quiet(numbered: tuple[int, str]) -> str:
    nth, name = numbered
    return f"logger.quiet{nth}.name = {name}\nlogger.quiet{nth}.level = error\n"


def _run(command: list[str], environment: dict[str, str], *, is_ours: bool) -> int:
    """Starts Spark and waits for its end. Signals are forwarded. After SIGTERM, a built-in job has STOP_SECONDS to
    finish its micro-batch.

    Ctrl-C at a terminal reaches the whole process group, so it is not forwarded. The JVM of a Python driver ignores it.
    """
    signals: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def stop(number: int, _: FrameType | None) -> None:
        signals.append(number)
        if process is not None and (number == signal.SIGTERM or not _has_terminal()):
            process.send_signal(number)

    # The handlers are set first, so that a signal at this time does not end this process before its child.
    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        process = subprocess.Popen(command, env=environment)
        if signals:
            process.send_signal(signals[-1])
        while True:
            is_asked = signal.SIGTERM in signals
            try:
                return _exit_code(process.wait(STOP_SECONDS if is_asked else 1.0))
            except subprocess.TimeoutExpired:
                if is_asked and is_ours:
                    process.kill()  # the JVM ends with the driver
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _has_terminal() -> bool:
    """Whether a user types at the terminal of this process."""
    return sys.stdin is not None and sys.stdin.isatty()


def _run_quietly(driver: list[str], environment: dict[str, str]) -> int:
    """Runs a built-in job with Spark's own log in a file. The file is kept if the job fails.

    If a signal has ended the job, the file is deleted, because no message names it.
    """
    number, log = tempfile.mkstemp(prefix="kcli-spark-", suffix=".log")
    os.close(number)
    code = _run(driver, environment | {SPARK_LOG: log}, is_ours=True)
    if code == 0 or code > SIGNALLED or not os.path.getsize(log):
        os.unlink(log)
    return code


SIGNALLED = 128
"""The exit code of a process that a signal has ended is larger than this number by the number of the signal."""


def _exit_code(code: int) -> int:
    """Returns the exit code that a shell would return: 128 plus the signal's number if a signal ended the process."""
    return code if code >= 0 else SIGNALLED - code

"""Spark of the PySpark package, found and set up so that a job needs no environment of its own.

`submit` reads the command line as spark-submit does (options up to the first other word, which is the job), makes a
configuration for the run (what Spark should do differently for us, and a quiet log), and starts Spark with this
interpreter. Nothing the user says is overruled: our settings are Spark *defaults*.

A file of the user runs under the real spark-submit. So does a built-in job whose driver is to run in the cluster;
elsewhere its driver is started as a Python process that starts the JVM itself, as the `pyspark` shell does, because
spark-submit gives a Python driver no stdin, one pipe for stdout and stderr, and no signal.
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
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

JOBS = {
    "export": "topics to Parquet, JSON, CSV or text files, or to Delta or Iceberg tables",
    "ingest": "files of text, CSV, JSON or Parquet, or the rows of a database, to a topic",
    "transform": "a SQL query over topics, its result to a topic",
    "sql": "SQL over topics: a shell, statements, or a file of them",
    "replay": "a range of records to another topic or cluster",
    "profile": "statistics of topics: sizes, keys, gaps, rates; a table and a page with charts",
}
PREPARE = "prepare"
"""Not a job: makes the archive of classes that Spark then starts from."""

CLUSTER_MODE = "cluster"
"""--deploy-mode of a driver that does not run here."""

FLAGS = frozenset({"-h", "--help", "-v", "--verbose", "--version", "--supervise", "--load-spark-defaults"})
"""spark-submit's options without a value; every other one takes the next word unless it has `=value`."""

MIN_JAVA = 17
"""What Spark 4 runs on."""

STOP_SECONDS = 60.0
"""How long a job may take to finish its micro-batch before Spark itself is ended."""

DEFAULTS = {
    # Unless this limit is off, rows on their way to Python are sized one by one: slow, and quadratic with headers.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    # The summary of a stream adds up what its micro-batches report.
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
LOCAL_DEFAULTS = {
    "spark.master": "local[*,4]",  # a failed task is tried again, which local[*] does not
    "spark.sql.shuffle.partitions": "8",
}

LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: {message}
"""

WHOLE_MESSAGE = "%m%n%ex"
FIRST_WORDS = "%maxLen{%m}{200}%n%ex{none}"
"""For built-in jobs, which say themselves what went wrong: no stack traces, of which Spark logs several per task."""

QUIET_LOGGERS = (
    "org.apache.hadoop.util.NativeCodeLoader",  # no native Hadoop: of no interest here
    "org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream",  # adaptive execution is off in streams
    "org.apache.spark.util.Utils",  # which address a local driver binds to
)


class SubmitError(Exception):
    """Something to run Spark with is missing, or the command line names no job: one line for the user."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Words of `kcli spark-submit`: Spark's options, the job or file, and the job's own."""

    spark: tuple[str, ...]
    job: str | None
    arguments: tuple[str, ...]

    def value(self, name: str) -> str | None:
        """The last value of Spark's option `name`."""
        found = None
        for nth, word in enumerate(self.spark):
            if word == name and nth + 1 < len(self.spark):
                found = self.spark[nth + 1]
            elif word.startswith(f"{name}="):
                found = word.partition("=")[2]
        return found

    @property
    def is_local(self) -> bool:
        """Whether everything runs on this machine: no master, or a local one."""
        master = self.value("--master") or self._conf("spark.master")
        return master is None or master.startswith("local")

    def without(self, name: str) -> tuple[str, ...]:
        """Spark's options but for `name` and its value."""
        kept: list[str] = []
        words = iter(self.spark)
        for word in words:
            if word == name:
                next(words, None)
            elif not word.startswith(f"{name}="):
                kept.append(word)
        return tuple(kept)

    def with_files(self, path: str) -> CommandLine:
        """With another of --py-files."""
        files = ",".join(filter(None, (path, self.value("--py-files"))))
        return replace(self, spark=(*self.without("--py-files"), "--py-files", files))

    def _conf(self, key: str) -> str | None:
        found = None
        for word in self.spark:
            name, _, value = word.removeprefix("--conf=").partition("=")
            if name == key:
                found = value
        return found


def split_command_line(words: list[str]) -> CommandLine:
    """Cut where spark-submit does: at the first word that is neither an option nor an option's value."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        takes_value = words[at] not in FLAGS and "=" not in words[at]
        at += 2 if takes_value else 1
    at = min(at, len(words))
    job = words[at] if at < len(words) else None
    return CommandLine(tuple(words[:at]), job, tuple(words[at + 1 :]))


def spark_home() -> Path:
    """Where the PySpark package is. Raises SubmitError where something of it is missing."""
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
    """The `java` that Spark will run."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def check_java() -> None:
    """Raises SubmitError unless the `java` that Spark will run is new enough."""
    wanted = f"install Java {MIN_JAVA} or newer (package openjdk-{MIN_JAVA}-jre-headless) or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")
    java = _java()
    if java is None or not os.access(java, os.X_OK):
        where = (
            f"JAVA_HOME is {home}, which has no bin/java" if home else "Spark needs Java, and there is none"
        )
        raise SubmitError(f"{where}: {wanted}")
    version = java_version(java)
    if version < MIN_JAVA:
        raise SubmitError(f"{java} is Java {version}, too old for Spark: {wanted}")


def java_version(java: str) -> int:
    """The feature release (8, 17, …), read from the JDK's release file where there is one: that starts no JVM."""
    release = Path(os.path.realpath(java)).parent.parent / "release"
    text = release.read_text() if release.is_file() else ""
    found = re.search(r'JAVA_VERSION="([^"]+)"', text)
    if found is None:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        found = re.search(r'version "([^"]+)"', done.stderr)
    if found is None:
        raise SubmitError(f"{java} does not tell its version: is it a Java runtime?")
    numbers = [int(part) for part in re.findall(r"\d+", found[1])]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def job_code(job: str) -> str:
    """What runs a built-in job. Not its file: the names beside that would hide modules of Python."""
    return f"import sys; from kcli.spark.jobs.{job}.job import main; sys.exit(main(sys.argv[1:]))"


def job_file(job: str, directory: Path) -> str:
    """The file to hand to Spark: a path or a URI; for a built-in job one is made in `directory`."""
    if job in JOBS:
        file = directory / f"kcli_{job}.py"
        file.write_text(job_code(job) + "\n")
        return str(file)
    if "://" not in job and not os.path.exists(job):
        known = ", ".join(JOBS)
        raise SubmitError(f"there is no file {job}, and it is not a built-in job ({known})")
    return job


def submit(line: CommandLine) -> int:
    """Run Spark; its exit code. Raises SubmitError where it cannot even start."""
    home = spark_home()
    check_java()
    with tempfile.TemporaryDirectory(prefix="kcli-spark-") as directory:
        line, environment = _prepared(line, home, Path(directory))
        if line.job is not None and line.job in JOBS and line.value("--deploy-mode") != CLUSTER_MODE:
            environment["PYSPARK_SUBMIT_ARGS"] = shlex.join([*line.spark, "pyspark-shell"])
            driver = [environment["PYSPARK_DRIVER_PYTHON"], "-P", "-c", job_code(line.job), *line.arguments]
            return _run(driver, environment, is_ours=True)
        command = [str(home / "bin" / "spark-submit"), *line.spark]
        if line.job is not None:
            command += [job_file(line.job, Path(directory)), *line.arguments]
        return _run(command, environment, is_ours=False)


def _prepared(line: CommandLine, home: Path, directory: Path) -> tuple[CommandLine, dict[str, str]]:
    """The command line and the environment that spark-submit, the driver and the workers find their way by."""
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
    """Our defaults under the user's.

    Where the user has a configuration directory, a copy with our defaults takes its place. Else they are a properties
    file, because the JVM takes no archive of classes when there is a directory with files on its class path.
    """
    conf = directory / "conf"
    given = os.environ.get("SPARK_CONF_DIR")
    users = Path(given) if given else home / "conf"
    write_conf(conf, users, is_local=line.is_local, is_brief=line.job in JOBS)
    if users.is_dir():
        environment["SPARK_CONF_DIR"] = str(conf)
        if line.value("--properties-file") is None:
            return line
        return replace(
            line, spark=(*line.spark, "--load-spark-defaults")
        )  # ours hold next to the user's file
    settings = conf / "spark-defaults.conf"
    file = line.value("--properties-file")
    if file is not None:
        try:
            users_text = Path(file).read_text()
        except OSError as error:
            raise SubmitError(f"--properties-file {file}: {error.strerror}") from None
        with settings.open("a") as ours:
            ours.write(users_text)  # the last line of a key holds
    options = [environment.get("SPARK_SUBMIT_OPTS"), f"-Dlog4j2.configurationFile={conf}/log4j2.properties"]
    archive = class_archive(home)
    if archive.exists():
        options += [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    environment["SPARK_SUBMIT_OPTS"] = " ".join(filter(None, options))
    return replace(line, spark=(*line.without("--properties-file"), "--properties-file", str(settings)))


def class_archive(home: Path) -> Path:
    """Where the classes of this Spark and this Java lie, ready to be mapped into memory (AppCDS)."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    places = f"{home}\0{os.path.realpath(_java() or '')}"
    version = importlib.metadata.version("pyspark") if importlib.util.find_spec("pyspark") else "none"
    return cache / "kcli" / f"spark-{version}-{zlib.crc32(places.encode()):08x}.jsa"


def prepare() -> Path:
    """Make the archive of classes: a small job runs, and its JVM writes down what it has loaded."""
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
                "Spark has a configuration directory here (SPARK_CONF_DIR), with which its JVM uses no archive"
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
    """kcli as a zip for `--py-files`, so that executors on other machines have the same one."""
    root = Path(__file__).resolve().parents[2]
    zipped = directory / "kcli.zip"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in ("kcli", "pyspark_kcli"):
            for file in sorted((root / package).rglob("*.py")):
                archive.write(file, file.relative_to(root))
                # Compiled modules too, or each worker compiles them; another Python passes over them.
                compiled = Path(importlib.util.cache_from_source(str(file)))
                if compiled.exists():
                    archive.write(compiled, file.relative_to(root).with_suffix(".pyc"))
    return zipped


def _own_root() -> str | None:
    """The directory to find kcli in, unless this interpreter's workers find it anyway."""
    root = str(Path(__file__).resolve().parents[2])
    return None if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) else root


def worker_python(directory: Path, path: str) -> Path:
    """This interpreter without Spark's own PYTHONPATH: workers then load PySpark from the installed package, whose
    modules are compiled, and not from the zip, whose modules every worker compiles again (4 s at first use)."""
    script = directory / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={_quoted(path)} exec {_quoted(sys.executable)} "$@"\n')
    script.chmod(0o700)
    return script


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def write_conf(conf: Path, users: Path, *, is_local: bool, is_brief: bool = False) -> None:
    """Spark's configuration directory for this run: our defaults under the user's, and the user's other files.

    `is_brief`: the log shows first words only.
    """
    conf.mkdir()
    settings = DEFAULTS | (LOCAL_DEFAULTS if is_local else {})
    lines = [f"{key} {value}" for key, value in settings.items()]
    if users.is_dir():
        for each in users.iterdir():
            if each.name != "spark-defaults.conf":
                (conf / each.name).symlink_to(each.resolve())
        given = users / "spark-defaults.conf"
        if given.is_file():
            lines.append(given.read_text())  # the last line of a key holds
    (conf / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    if not any((conf / name).exists() for name in ("log4j2.properties", "log4j2.xml", "log4j2.yaml")):
        log = LOG4J.format(message=FIRST_WORDS if is_brief else WHOLE_MESSAGE)
        (conf / "log4j2.properties").write_text(log + "".join(map(_quiet, enumerate(QUIET_LOGGERS))))


def _quiet(numbered: tuple[int, str]) -> str:
    nth, name = numbered
    return f"logger.quiet{nth}.name = {name}\nlogger.quiet{nth}.level = error\n"


def _run(command: list[str], environment: dict[str, str], *, is_ours: bool) -> int:
    """Start Spark and wait. SIGTERM is passed on: a built-in job ends its micro-batch first, within STOP_SECONDS.

    Ctrl-C reaches the whole process group anyway; the JVM of a Python driver passes over it, and so do we.
    """
    process = subprocess.Popen(command, env=environment)
    asked: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        asked.append(number)
        if number == signal.SIGTERM:
            process.send_signal(signal.SIGTERM)

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        while True:
            is_asked = signal.SIGTERM in asked
            try:
                return _exit_code(process.wait(STOP_SECONDS if is_asked else 1.0))
            except subprocess.TimeoutExpired:
                if is_asked and is_ours:
                    process.kill()  # its JVM ends with it
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _exit_code(code: int) -> int:
    """A process that a signal ended has 128 + signal, as in a shell."""
    return code if code >= 0 else 128 - code

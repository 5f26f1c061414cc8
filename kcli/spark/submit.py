"""The real spark-submit of the PySpark package, found and set up so that a job needs no environment of its own.

`submit` reads the command line as spark-submit does (options up to the first other word, which is the job), makes a
configuration directory for the run (what Spark should do differently for us, and a quiet log), and starts Spark with
this interpreter. Nothing the user says is overruled: our settings are Spark *defaults*.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

JOBS = {
    "export": "topic to Parquet, JSON or CSV files, as a batch or as a stream",
    "ingest": "files of text, CSV, JSON or Parquet to a topic",
}

FLAGS = frozenset({"-h", "--help", "-v", "--verbose", "--version", "--supervise", "--load-spark-defaults"})
"""spark-submit's options without a value; every other one takes the next word unless it has `=value`."""

MIN_JAVA = 17
"""What Spark 4 runs on."""

STOP_FILE = "KCLI_SPARK_STOP_FILE"
"""Names the file that asks a running job to stop; it is in the environment of jobs started by `submit`."""

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


def check_java() -> None:
    """Raises SubmitError unless the `java` that Spark will run is new enough."""
    wanted = f"install Java {MIN_JAVA} or newer (package openjdk-{MIN_JAVA}-jre-headless) or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
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


def job_file(job: str) -> str:
    """The file to hand to Spark for a built-in job, a path or a URI."""
    if job in JOBS:
        return str(Path(__file__).with_name("jobs") / f"{job}.py")
    if "://" not in job and not os.path.exists(job):
        known = ", ".join(JOBS)
        raise SubmitError(f"there is no file {job}, and it is not a built-in job ({known})")
    return job


def submit(line: CommandLine) -> int:
    """Run Spark; its exit code. Raises SubmitError where it cannot even start."""
    home = spark_home()
    check_java()
    with tempfile.TemporaryDirectory(prefix="kcli-spark-") as directory:
        words = list(line.spark)
        if line.value("--properties-file") is not None and "--load-spark-defaults" not in words:
            words.append("--load-spark-defaults")  # ours hold next to the user's file, which goes first
        command = [str(home / "bin" / "spark-submit"), *words]
        if line.job is not None:
            command += [job_file(line.job), *line.arguments]
        stop_file = os.path.join(directory, "stop")
        environment = _environment(line, home, Path(directory), stop_file)
        return _run(command, environment, stop_file, built_in=line.job in JOBS)


def _environment(line: CommandLine, home: Path, directory: Path, stop_file: str) -> dict[str, str]:
    """Everything spark-submit, the driver and the workers find their way by."""
    conf = directory / "conf"
    given = os.environ.get("SPARK_CONF_DIR")
    users = Path(given) if given else home / "conf"
    write_conf(conf, users, is_local=line.is_local, is_brief=line.job in JOBS)
    path = os.pathsep.join(filter(None, (_own_root(), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_CONF_DIR": str(conf), STOP_FILE: stop_file}
    if path:
        environment["PYTHONPATH"] = path
    environment.setdefault("PYSPARK_DRIVER_PYTHON", os.environ.get("PYSPARK_PYTHON", sys.executable))
    if line.is_local:
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        environment.setdefault("PYSPARK_PYTHON", str(_worker_python(directory, path)))
    else:
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
        with (conf / "spark-defaults.conf").open("a") as defaults:
            defaults.write(f"spark.executorEnv.PYTHONPATH {path}\n" if path else "")
    return environment


def _own_root() -> str | None:
    """The directory to find kcli in, unless this interpreter's workers find it anyway."""
    root = str(Path(__file__).resolve().parents[2])
    return None if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) else root


def _worker_python(directory: Path, path: str) -> Path:
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


def _run(command: list[str], environment: dict[str, str], stop_file: str, *, built_in: bool) -> int:
    """Start Spark and wait. A built-in job is asked to stop by a file when we are; it ends its batch first.

    It gets a process group of its own, or Ctrl-C would end the JVM under it at once.
    """
    process = subprocess.Popen(command, env=environment, process_group=0 if built_in else None)

    def end(number: int) -> None:
        if built_in:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)

    def stop(number: int, _: FrameType | None) -> None:
        if built_in and not os.path.exists(stop_file):
            Path(stop_file).touch()
        else:
            end(signal.SIGTERM)

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        while True:
            asked = os.path.exists(stop_file)
            try:
                return _exit_code(process.wait(STOP_SECONDS if asked else 1.0))
            except subprocess.TimeoutExpired:
                if asked:
                    end(signal.SIGKILL)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _exit_code(code: int) -> int:
    """A process that a signal ended has 128 + signal, as in a shell."""
    return code if code >= 0 else 128 - code

"""The keys of the Spark connectors: their own keys, and the options of the job.

The option `--max-offsets-per-trigger` of the job `export` is the key `export.max.offsets.per.trigger`, as in the file
of `--config`. All keys that begin with `spark.` are settings of Spark.
"""

from __future__ import annotations

import functools

from kcli.command.options import Argument, Kind, Option
from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, NonEmpty, Range

INGEST, EXPORT, TRANSFORM = "ingest", "export", "transform"
FILE_JOB = "job"
"""The prefix of the keys of a program of the user."""

MASTER, SPARK = "spark.master", "spark."
RUN_INTERVAL, STOP_TIMEOUT = "run.interval.ms", "stop.timeout.ms"
FILE, ARGUMENTS, CHECKPOINT = f"{FILE_JOB}.file", f"{FILE_JOB}.arguments", f"{FILE_JOB}.checkpoint"
MODE, BATCH, CONTINUOUS = "mode", "batch", "continuous"

_CLIENT = "the job uses the client settings of the worker, and producer.override.… or consumer.override.…"
_TOPICS = "use the key topics or topics.regex"
NOT_FOR_CONNECTORS = {
    "bootstrap-server": _CLIENT,
    "command-config": _CLIENT,
    "config": "write the options of the job as keys of the connector",
    "dry-run": "validate the connector instead",
    "help": "docs/connect-spark.md describes the keys",
    "log-dir": "a connector reads a cluster",
    "output": "the summary of the job is in the log",
}
"""Options of the jobs that a connector replaces, with the reason or the replacement."""
TOPIC_OPTIONS = {"topic": _TOPICS, "topic-pattern": _TOPICS}
"""The same for a job whose topics are in the keys of the worker."""

SECRETS = frozenset({"url", "table-option", "read-option", "write-option"})
"""Options whose values may contain passwords, so that forms hide them."""

_TYPES = {
    Kind.BOOLEAN: ConfigType.BOOLEAN,
    Kind.DOUBLE: ConfigType.DOUBLE,
    Kind.INTEGER: ConfigType.INT,
    Kind.LONG: ConfigType.LONG,
    Kind.SHORT: ConfigType.SHORT,
    Kind.STRING: ConfigType.STRING,
}


class JobKeys:
    """The `config_def` of a connector. It is made at its first use, because a worker that starts imports all
    connectors, and the jobs take long to import."""

    def __init__(self, job: str) -> None:
        self._job = job

    def __get__(self, instance: object, owner: type) -> ConfigDef:
        return job_keys(self._job)


@functools.cache
def job_keys(job: str) -> ConfigDef:
    """All keys of a connector that runs the job."""
    if job == FILE_JOB:
        return ConfigDef([*_file_keys(), *_common_keys()])
    return ConfigDef([*(_option_key(job, option) for option in options_of_job(job)), *_common_keys()])


def options_of_job(job: str) -> list[Option]:
    """The options of a built-in job that its connector has as keys."""
    from kcli.spark.jobs.shared.job import load_job

    refused = refused_options(job)
    return [option for option in load_job(job).known() if option.name not in refused]


def refused_options(job: str) -> dict[str, str]:
    """Options that a connector cannot have, with the reasons."""
    return NOT_FOR_CONNECTORS | (TOPIC_OPTIONS if job == EXPORT else {})


def key_of(job: str, option: str) -> str:
    """The key of an option of a job."""
    return f"{job}.{option.replace('-', '.')}"


def _option_key(job: str, option: Option) -> ConfigKey:
    kind, default = _TYPES[option.kind], option.default
    if option.argument is Argument.NONE:
        kind, default = ConfigType.BOOLEAN, "false"
    elif option.repeatable:
        kind, default = ConfigType.LIST, ""
    elif option.name == MODE:
        default = CONTINUOUS
    if option.name in SECRETS:
        kind = ConfigType.PASSWORD
    choices = f" One of: {', '.join(option.choices)}." if option.choices else ""
    return ConfigKey(
        key_of(job, option.name), kind, None if default is None else str(default), None,
        Importance.HIGH if option.required else Importance.MEDIUM, f"{option.help}{choices}",
        required=option.required, group=job,
    )  # fmt: skip


def _file_keys() -> list[ConfigKey]:
    return [
        ConfigKey(FILE, ConfigType.STRING, None, NonEmpty(), Importance.HIGH,
                  "The program: a Python file, or a JAR file.", required=True),
        ConfigKey(ARGUMENTS, ConfigType.STRING, "", None, Importance.MEDIUM,
                  "The arguments of the program, as in a shell. Other users of the machine can read them."),
        ConfigKey(CHECKPOINT, ConfigType.STRING, None, None, Importance.MEDIUM,
                  "The checkpoint of the program's streaming query, or a directory with several checkpoints. The "
                  "connector only reads it, to report offsets."),
    ]  # fmt: skip


def _common_keys() -> list[ConfigKey]:
    return [
        ConfigKey(MASTER, ConfigType.STRING, None, None, Importance.HIGH,
                  "The master of Spark, such as spark://HOST:PORT. Without it, the job runs on the machine of the "
                  "task."),
        ConfigKey(RUN_INTERVAL, ConfigType.LONG, "60000", Range(low=-1), Importance.LOW,
                  "The pause after a job that has ended without an error, before it runs again. -1 means that it does "
                  "not run again."),
        ConfigKey(STOP_TIMEOUT, ConfigType.LONG, "60000", Range(low=0), Importance.LOW,
                  "The time in which a stopped job may finish its micro-batch. After this time, it is killed."),
    ]  # fmt: skip

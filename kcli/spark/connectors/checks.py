"""Checks the configuration of a Spark connector, in the process of the connector."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from kcli.config.definition import ConfigError
from kcli.connectors.interface import Config
from kcli.model.java_text import split_list, trim
from kcli.spark.command_line import CommandLine, SubmitError
from kcli.spark.connectors.command import CLIENT_KEYS, SERVERS, job_words, parsed
from kcli.spark.connectors.keys import ARGUMENTS, FILE, FILE_JOB, MASTER, TRANSFORM, job_keys
from kcli.spark.jobs.records.topic_tables import declared_tables, table_of
from kcli.spark.jobs.sql.table_names import table_names
from kcli.spark.jobs.transform.job import TransformOptions
from kcli.spark.submit import CLUSTER_MODE, check_java, spark_home

CLASS = "connector.class"
DEPLOY_MODE = "spark.submit.deployMode"

WITHOUT_EFFECT = (
    "transforms", "predicates", "key.converter", "value.converter", "header.converter", "errors.", "topic.creation.",
    "transaction.boundary",
)  # fmt: skip
"""The beginnings of keys for records that pass through a worker. The records of a job do not."""

OVERRIDES = ("producer.override.", "consumer.override.")
OVERRIDABLE = frozenset({SERVERS, *CLIENT_KEYS, "group.id"})
"""The client settings that have an effect on a job, or on the group in which its offsets are shown."""


def errors_of(job: str, config: Config) -> Mapping[str, Sequence[str]]:
    """The errors by key. The worker reports the errors of single keys itself."""
    try:
        job_keys(job).parse(config)
    except ConfigError:
        return {}
    errors: dict[str, list[str]] = {}
    check_job = _check_file if job == FILE_JOB else _check_options
    for check in (_check_installation, _check_master, check_job, _check_unused):
        try:
            check(job, config)
        except ConfigError as error:
            errors.setdefault(error.key or CLASS, []).append(error.message)
    return errors


def _check_installation(job: str, config: Config) -> None:
    try:
        spark_home()
        check_java()
    except SubmitError as error:
        raise ConfigError(str(error), key=CLASS) from None


def _check_master(job: str, config: Config) -> None:
    if trim(config.get(DEPLOY_MODE, "")) == CLUSTER_MODE:
        reason = "expected client, because the task follows the driver on this machine"
        raise ConfigError(f"{DEPLOY_MODE} {CLUSTER_MODE}: {reason}", key=DEPLOY_MODE)
    if MASTER in config:
        try:
            CommandLine(("--conf", f"{MASTER}={trim(config[MASTER])}"), None, ()).check_master()
        except SubmitError as error:
            raise ConfigError(str(error), key=MASTER) from None


def _check_file(job: str, config: Config) -> None:
    file = trim(config[FILE])
    if "://" not in file and not Path(file).is_file():
        raise ConfigError(f"there is no file {file} on the machine of this worker", key=FILE)
    try:
        shlex.split(config.get(ARGUMENTS, ""))
    except ValueError as error:
        raise ConfigError(f"{ARGUMENTS}: {error}", key=ARGUMENTS) from None


def _check_options(job: str, config: Config) -> None:
    options = parsed(job, job_words(job, config))
    if job == TRANSFORM:
        assert isinstance(options, TransformOptions)
        _check_topics(options, config)


def _check_topics(options: TransformOptions, config: Config) -> None:
    """The query names the topics, and the key `topics` only repeats them for the users of the worker."""
    if config.get("topics.regex"):
        raise ConfigError("expected topics, with the topics that the query reads", key="topics.regex")
    declared = declared_tables(options)
    tables = [table_of(options, declared, name).topic for name in table_names(options.query)]
    for topic in split_list(config.get("topics", "")):
        if topic not in tables:
            raise ConfigError(
                f"the query does not read the topic {topic}, but {', '.join(tables)}", key="topics"
            )


def _check_unused(job: str, config: Config) -> None:
    for key in config:
        if key.startswith(WITHOUT_EFFECT):
            raise ConfigError(f"{key} has no effect, because the job moves the records itself", key=key)
        for prefix in OVERRIDES:
            if key.startswith(prefix) and key.removeprefix(prefix) not in OVERRIDABLE:
                raise ConfigError(f"{key} has no effect on a job of Spark: use a key of Spark", key=key)

"""Makes the command line of `kcli spark-submit` from the configuration of a connector.

Everything that may be a secret goes into files that only this user may read, because all users of a machine can read
command lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kcli.command.options import Argument, HelpRequested, Option, ParseError, UsageError
from kcli.config.definition import ConfigError
from kcli.config.properties import dumps
from kcli.connectors.interface import Config
from kcli.model.java_text import split_list, trim
from kcli.runtime.hidden_arguments import holds_secret
from kcli.security.client import PROPERTIES as SECURITY
from kcli.spark.connectors.keys import (
    ARGUMENTS,
    BATCH,
    CHECKPOINT,
    CONTINUOUS,
    EXPORT,
    FILE,
    FILE_JOB,
    MODE,
    SPARK,
    key_of,
    options_of_job,
    refused_options,
)
from kcli.spark.jobs.shared.job import load_job
from kcli.spark.jobs.shared.options import ModeOptions

SERVERS = "bootstrap.servers"
CLIENT_KEYS = (*SECURITY, "request.timeout.ms", "default.api.timeout.ms")
"""The client settings that a job takes, beside the servers."""


@dataclass(frozen=True, slots=True)
class JobCommand:
    """The arguments of `kcli spark-submit`, and the checkpoint of the job."""

    words: tuple[str, ...]
    checkpoint: str | None


def prepare_command(job: str, config: Config, client: Mapping[str, str], directory: Path) -> JobCommand:
    """Writes the files of a command to `directory`, and returns the command. Raises ConfigError."""
    spark = {key: text for key, text in config.items() if key.startswith(SPARK)}
    words = ["--properties-file", _written(directory / "spark.properties", spark)] if spark else []
    if job == FILE_JOB:
        words += [trim(config[FILE]), *shlex.split(config.get(ARGUMENTS, ""))]
        return JobCommand(tuple(words), trim(config.get(CHECKPOINT, "")) or None)
    options = parsed(job, job_words(job, config))
    public, secret = _divided(job, config)
    settings = {key: text for key, text in client.items() if key in CLIENT_KEYS}
    words += [job, f"--bootstrap-server={client[SERVERS]}", *public]
    if settings:
        words.append(f"--command-config={_written(directory / 'client.properties', settings)}")
    if secret:
        words.append(f"--config={_written(directory / 'job.properties', secret)}")
    return JobCommand(tuple(words), options.checkpoint)


def parsed(job: str, words: Sequence[str]) -> ModeOptions:
    """The options of a job, as its own parser reads them. Raises ConfigError."""
    try:
        options = load_job(job).parse(["--bootstrap-server=localhost:9092", *words])
    except HelpRequested:
        raise ConfigError("a connector has no --help") from None
    except UsageError as error:
        hint = f". {error.hint}" if isinstance(error, ParseError) and error.hint else ""
        named = re.search(r"--([a-z][a-z-]*)", str(error))
        key = None if named is None else key_of(job, named[1])
        raise ConfigError(f"The job {job} refuses its options: {error}{hint}", key=key) from None
    assert isinstance(options, ModeOptions), job
    return options


def job_words(job: str, config: Config) -> list[str]:
    """The options of a job as arguments. Raises ConfigError for an option that a connector cannot have."""
    words = _topic_words(config) if job == EXPORT else []
    for _, texts in _option_words(job, config):
        words += texts
    return words


def _divided(job: str, config: Config) -> tuple[list[str], dict[str, str]]:
    """The options of a job as arguments, and those with secrets as the keys of a file for `--config`."""
    public = _topic_words(config) if job == EXPORT else []
    secret: dict[str, str] = {}
    for key, words in _option_words(job, config):
        if any(map(holds_secret, words)):
            secret[key] = "\n".join(word.partition("=")[2] for word in words)
        else:
            public += words
    return public, secret


def _option_words(job: str, config: Config) -> list[tuple[str, list[str]]]:
    options = {option.name: option for option in options_of_job(job)}
    refused = refused_options(job)
    pairs: list[tuple[str, list[str]]] = []
    if key_of(job, MODE) not in config:
        pairs.append((key_of(job, MODE), [f"--{MODE}={CONTINUOUS}"]))
    for key, text in config.items():
        if key.startswith(f"{job}."):
            name = key.removeprefix(f"{job}.").replace(".", "-")
            if name in refused:
                raise ConfigError(f"{key} is not a key of this connector: {refused[name]}", key=key)
            if name == MODE and trim(text) == BATCH:
                reason = (
                    "a batch repeats its records when the task starts again: use continuous or available-now"
                )
                raise ConfigError(f"Invalid value {BATCH} for configuration {key}: {reason}", key=key)
            pairs.append((key, _words(name, options.get(name), text)))
    return pairs


def _words(name: str, option: Option | None, text: str) -> list[str]:
    """The arguments of one option. An unknown option is left to the parser of the job, which refuses it."""
    text = trim(text)
    if option is None:
        return [f"--{name}={text}"]
    if option.argument is Argument.NONE:
        return [f"--{name}"] if text.lower() == "true" else []
    return [f"--{name}={part}" for part in (split_list(text) if option.repeatable else [text])]


def _topic_words(config: Config) -> list[str]:
    """The topics of a sink connector as options of the job."""
    topics = ",".join(split_list(config.get("topics", "")))
    return [f"--topic={topics}"] if topics else [f"--topic-pattern={config.get('topics.regex', '')}"]


def _written(path: Path, properties: Mapping[str, str]) -> str:
    path.touch(mode=0o600)
    path.write_text(dumps(properties, now=datetime.now(UTC)), encoding="utf-8")
    return str(path)

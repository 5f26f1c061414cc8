"""Reads the command line of `kcli spark-submit`, as Spark's own spark-submit does.

The job is the first argument that is not an option and not the value of an option.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from kcli.config.properties import dumps, parse
from kcli.model.java_text import trim
from kcli.runtime.hidden_arguments import holds_secret

FLAGS = frozenset({"-h", "--help", "-v", "--verbose", "--version", "--supervise", "--load-spark-defaults"})
"""The options of spark-submit without a value.

Any other option takes the next argument as its value, unless it has the form `--name=value`.
"""

MASTERS = re.compile(
    r"local(\[(0*[1-9][0-9]*|\*)(\s*,\s*[0-9]+)?\])?|local-cluster\[.*\]|yarn|[a-z][a-z0-9+.-]*://.+",
    re.ASCII | re.DOTALL,
)
"""The masters of Spark. A plug-in may add masters that have the form of a URL."""

MASTER_FORMS = "local, local[N], local[*], local[N,FAILURES], yarn, spark://HOST:PORT or k8s://HOST:PORT"


class SubmitError(Exception):
    """Raised if a part of Spark is missing or unusable, or if there is no such job. The message is one line for the
    user.
    """


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The arguments of `kcli spark-submit`: Spark's options, the job or file, and the arguments of the job.

    `settings` is the text of the user's --properties-file. It is read once, because the file may be a pipe.
    """

    spark: tuple[str, ...]
    job: str | None
    arguments: tuple[str, ...]
    settings: str = ""

    def value(self, name: str) -> str | None:
        """Returns the last value of Spark's option `name`."""
        value = None
        for nth, word in enumerate(self.spark):
            if word == name and nth + 1 < len(self.spark):
                value = self.spark[nth + 1]
            elif word.startswith(f"{name}="):
                value = word.partition("=")[2]
        return value

    @property
    def shows_spark_log(self) -> bool:
        """Whether the user wants to see Spark's own log on stderr."""
        return bool({"-v", "--verbose"} & set(self.spark)) or self._conf("spark.log.level") is not None

    @property
    def is_local(self) -> bool:
        """Whether everything runs on this machine: no master is set, or a local master."""
        master = self.value("--master") or self._setting("spark.master")
        return master is None or master.startswith("local")

    @property
    def asks_version(self) -> bool:
        """Whether the command line only asks for Spark's version. Spark then runs no job."""
        return "--version" in self.spark

    def check_master(self) -> None:
        """Raises SubmitError if the master is not one that Spark knows. Spark itself reports this only in its log."""
        source, master = "--master", self.value("--master")
        if master is None:
            source, master = "spark.master", self._setting("spark.master")
        if master is not None and not MASTERS.fullmatch(master):
            raise SubmitError(f"{source} {master}: expected {MASTER_FORMS}")

    def without(self, name: str) -> tuple[str, ...]:
        """Returns Spark's options except `name` and its value."""
        remaining: list[str] = []
        words = iter(self.spark)
        for word in words:
            if word == name:
                next(words, None)
            elif not word.startswith(f"{name}="):
                remaining.append(word)
        return tuple(remaining)

    def with_files(self, path: str) -> CommandLine:
        """Returns the command line with `path` added to --py-files."""
        files = ",".join(filter(None, (path, self.value("--py-files"))))
        return replace(self, spark=(*self.without("--py-files"), "--py-files", files))

    def with_settings(self, path: Path) -> CommandLine:
        """Returns the command line with another --properties-file."""
        return replace(self, spark=(*self.without("--properties-file"), "--properties-file", str(path)))

    def users_settings(self) -> str:
        """Returns the text of the user's --properties-file, or an empty text without it. Raises SubmitError."""
        file = self.value("--properties-file")
        if file is None:
            return ""
        try:
            return Path(file).read_text() + "\n"
        except OSError as error:
            raise SubmitError(f"--properties-file {file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SubmitError(f"--properties-file {file}: the text is not UTF-8") from None

    def without_secrets(self) -> tuple[CommandLine, str]:
        """Returns the command line without the settings that contain a secret, and these settings as lines of a file.

        The JVM shows its command line in the list of processes.
        """
        remaining: list[str] = []
        secrets: dict[str, str] = {}
        words = iter(self.spark)
        for word in words:
            is_pair = word in ("--conf", "-c")
            setting = next(words, "") if is_pair else word.removeprefix("--conf=")
            if (is_pair or word.startswith("--conf=")) and "=" in setting and holds_secret(setting):
                name, _, value = setting.partition("=")
                secrets[trim(name)] = value
            else:
                remaining += [word, setting] if is_pair else [word]
        return replace(self, spark=tuple(remaining)), dumps(secrets, now=datetime.now(UTC)) if secrets else ""

    def _setting(self, key: str) -> str | None:
        """Returns the value of a setting in --conf, or else in the user's --properties-file."""
        value = self._conf(key)
        if value is not None:
            return value
        in_file = parse(self.settings).get(key)
        return None if in_file is None else trim(in_file)

    def _conf(self, key: str) -> str | None:
        setting = None
        for word in self.spark:
            name, _, value = word.removeprefix("--conf=").partition("=")
            if name == key:
                setting = value
        return setting


def split_command_line(words: list[str]) -> CommandLine:
    """Splits the arguments at the first argument that is not an option or the value of an option, as spark-submit
    does. Raises SubmitError if the --properties-file cannot be read."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        takes_value = words[at] not in FLAGS and "=" not in words[at]
        at += 2 if takes_value else 1
    at = min(at, len(words))
    job = words[at] if at < len(words) else None
    line = CommandLine(tuple(words[:at]), job, tuple(words[at + 1 :]))
    return replace(line, settings=line.users_settings())

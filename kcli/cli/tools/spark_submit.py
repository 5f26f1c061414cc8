"""spark-submit: run a built-in job, or any Spark job, with the PySpark package's own spark-submit.

Spark's options go to Spark as they are. The options of a built-in job are read, and its topics looked up, before Spark
starts, so that a wrong word is told at once and not by a JVM ten seconds later.
"""

from __future__ import annotations

import argparse
import importlib
import os
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kcli.cli.output import Output, warn
from kcli.cli.syntax.examples import Example, help_lines
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    CommonOptions,
    ConnectingOptions,
    Family,
    options_of,
)
from kcli.cli.syntax.profiles import BOOTSTRAP, Profile, chosen_profile
from kcli.config.properties import dumps, load
from kcli.errors import KcliError
from kcli.spark.submit import (
    JOBS,
    MIN_JAVA,
    PREPARE,
    CommandLine,
    SubmitError,
    prepare,
    split_command_line,
    submit,
)

DESCRIPTION = "Run a job of kcli, or one of your own, on Spark."

HELP = f"""\
{DESCRIPTION}

Usage: kcli spark-submit [--profile NAME] [SPARK OPTIONS] JOB [JOB OPTIONS]
       kcli spark-submit [SPARK OPTIONS] FILE.py [ARGUMENTS]
       kcli spark-submit prepare

Jobs (kcli spark-submit JOB --help shows the options of one):
{{jobs}}

`prepare` is for once on a machine: it writes down the classes that Spark loads (160 MB in ~/.cache/kcli), from which
every later start takes seconds less.

Spark options go to the spark-submit of the PySpark package unchanged, for example --master local[4],
--conf KEY=VALUE, --driver-memory 4g, --properties-file FILE; --version and --verbose are Spark's too.
Without --master the job runs in this machine (local[*]). Spark logs warnings and errors only;
--conf spark.log.level=INFO shows more.

--profile NAME takes the servers and client settings of a job from that profile of profiles.toml: see PROFILES
in kcli(1).

In any job, spark.read.format("kcli") reads topics as Spark's own Kafka source does, and
frame.write.format("kcli") writes to them; the same holds for readStream and writeStream.

Needs Java {MIN_JAVA} or newer and pip install 'kcli-streaming[spark]'. The exit code is Spark's."""


def run(options: CommonOptions, output: Output) -> int:
    words = list(options.argv)
    line = split_command_line(words)
    profile = chosen_profile(options_of(ConnectingOptions), line.value("--profile"))
    if profile is not None and line.job not in JOBS and line.value("--profile") is not None:
        raise CommandError(f"--profile is for the jobs of kcli ({', '.join(JOBS)})")
    line = replace(line, spark=line.without("--profile"))
    if {"--help", "-h"} & set(line.spark):
        print("\n".join([help_text(), *help_lines(command.examples, command.exit_status)]))
        return 0
    if line.job is None and "--version" not in line.spark:
        warn(help_text())
        return 1
    try:
        if line.job in JOBS:
            with tempfile.TemporaryDirectory(prefix="kcli-profile-") as directory:
                return _built_in(line if profile is None else with_profile(line, profile, Path(directory)))
        if line.job == PREPARE:
            print(f"made {prepare()}: Spark starts from it now")
            return 0
        return submit(line)
    except SubmitError as error:
        raise CommandError(str(error)) from None


def help_text() -> str:
    width = max(map(len, JOBS)) + 2
    return HELP.format(jobs="\n".join(f"  {name:{width}}{text}" for name, text in JOBS.items()))


def with_profile(line: CommandLine, profile: Profile, directory: Path) -> CommandLine:
    """The job with the profile's servers and client settings, below what its own words and its --config say."""
    job = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--bootstrap-server", "--log-dir", "--command-config", "--config"):
        job.add_argument(name)
    said = vars(job.parse_known_args(line.arguments)[0])
    if said["config"] is not None and os.path.isfile(said["config"]):
        keys = {key.removeprefix(f"{line.job}.").replace(".", "_") for key in load(said["config"])}
        said |= {
            name: name for name in said if {name, f"{name}s"} & keys
        }  # bootstrap.servers, as Kafka spells it
    words: list[str] = []
    servers = profile.table.get(BOOTSTRAP)
    if servers is not None and said["bootstrap_server"] is said["log_dir"] is None:
        words += [f"--{BOOTSTRAP}", servers]
    if profile.properties and said["command_config"] is None:
        file = directory / "client.properties"  # in a directory that nobody else may look into
        file.write_text(dumps(profile.properties, now=datetime.now(UTC)))
        words += ["--command-config", str(file)]
    return replace(line, arguments=(*words, *line.arguments))


def _built_in(line: CommandLine) -> int:
    """Check the job's options, and from here also its cluster; a dry run ends with that."""
    job: Any = importlib.import_module(f"kcli.spark.jobs.{line.job}")
    try:
        options = job.parse(line.arguments)
    except SystemExit as exit:  # argparse has said what is wrong, or shown its help
        return exit.code if isinstance(exit.code, int) else 1
    if options.dry_run or line.is_local:
        try:
            plan = job.plan(options)
        except (KcliError, ValueError) as error:
            raise CommandError(f"{line.job}: {error}") from None
    if not options.dry_run:
        return submit(line)
    for text in plan:
        print(text)
    return 0


command = Command(
    name="spark-submit",
    description=DESCRIPTION,
    options=CommonOptions,
    run=run,
    family=Family.RAW,
    examples=(
        Example(
            "Check the options of an export to Parquet, and the topic that it reads:",
            "kcli spark-submit export --bootstrap-server localhost:9092 --topic orders \\\n"
            "  --path exported --dry-run",
        ),
    ),
    exit_status=(
        (0, "The job did its work, or SIGTERM or Ctrl-C stopped a stream after its micro-batch."),
        (1, "The job failed or was stopped before its end, or its options are wrong."),
    ),
)

"""kafka-server-start: runs a node in this process, or starts a node in the background."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommandError, CommonOptions, UsageError, flag, option
from kcli.command.examples import Example
from kcli.config.environment import EXTRA_ARGS, LOG_DIR, logs_directory
from kcli.model.java_text import split_blanks, trim

if TYPE_CHECKING:
    from kcli.config.broker import BrokerConfig

USAGE = "USAGE: kcli server-start [-daemon] server.properties [--override property=value]*"
# The beginning of the name of the file to which Kafka's script redirects the output of a background server.
CONSOLE_FILE = "kafkaServer"
CONSOLE_SUFFIX = ".out"
SERVER_MODULE = "kcli.server.main"
LOG_FORMAT_KEY = "kcli.log.format"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStartOptions(CommonOptions):
    daemon: bool = flag(
        "Run the server in the background. The server writes its log to server.log, controller.log and other "
        "files in the directory $LOG_DIR (default of LOG_DIR: logs), and renames these files each hour. Until the "
        "server has started, it also writes the log to kafkaServer.out in this directory. Without --daemon, the server "
        "writes these files only if LOG_DIR is set."
    )
    log_format: str | None = option(
        "The format of the log: text, or json for one JSON object a line. This option takes precedence over "
        "kcli.log.format in the properties file.",
        metavar="format",
        choices=("text", "json"),
    )
    override: tuple[str, ...] = option(
        "A property, as key=value, that takes precedence over the properties file. Write this option after the name "
        "of the file.",
        metavar="property=value",
        repeatable=True,
    )


@dataclass(frozen=True, slots=True)
class Started:
    """A server that was started in the background."""

    pid: int
    log_file: str


def run(options: ServerStartOptions, output: Output) -> int:
    if not options.arguments:
        raise UsageError(USAGE)
    file, *extra = options.arguments
    if extra:
        raise UsageError(f"Found non argument parameters: {','.join(extra)}")
    texts = options.override
    if options.log_format is not None:
        texts = (*texts, f"{LOG_FORMAT_KEY}={options.log_format}")
    config = _config(file, _overrides(texts))
    script = _extra_arguments()
    if options.daemon or script.is_daemon:
        started = _start_in_background(file, texts, script.name)
        if not output.is_text:
            output.row(started, "")
        return 0
    return _serve(config)


@dataclass(frozen=True, slots=True)
class ExtraArguments:
    """The options in the environment variable EXTRA_ARGS that Kafka's script puts before the others."""

    is_daemon: bool = False
    name: str = CONSOLE_FILE


def _extra_arguments() -> ExtraArguments:
    words = iter(split_blanks(os.environ.get(EXTRA_ARGS, "")))
    arguments = ExtraArguments()
    for word in words:
        match word:
            case "-daemon":
                arguments = replace(arguments, is_daemon=True)
            case "-name":
                arguments = replace(arguments, name=next(words, CONSOLE_FILE))
            case "-loggc":
                continue
            case _:
                break
    return arguments


def _overrides(texts: Sequence[str]) -> dict[str, str]:
    overrides = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not trim(name):
            raise CommandError(f"Invalid command line properties: {text}; --override takes property=value")
        overrides[trim(name)] = trim(value)
    return overrides


def _config(file: str, overrides: dict[str, str]) -> BrokerConfig:
    """Reads and checks the configuration.

    The configuration of a background server is checked here too, so that the user sees the errors.
    """
    _import_server()
    from kcli.config.definition import ConfigError
    from kcli.config.not_built import check_can_serve
    from kcli.controller.policies import configured_policies
    from kcli.security.acls.configured import node_authorizer
    from kcli.server.logging.settings import log_settings
    from kcli.server.main import configured

    try:
        config = configured(file, overrides)
    except ConfigError as error:
        raise CommandError(error.located()) from None
    except OSError as error:
        raise CommandError(f"cannot read the configuration file {file}: {error.strerror}") from None
    try:
        check_can_serve(config)
        node_authorizer(config)
        configured_policies(config)
        log_settings(config, None)
    except ConfigError as error:
        raise CommandError(config.texts.blamed(error).located()) from None
    return config


def _serve(config: BrokerConfig) -> int:
    from kcli.config.definition import ConfigError
    from kcli.server.main import run as serve

    try:
        return serve(config)
    except ConfigError as error:  # a value that only the built node can check
        raise CommandError(config.texts.blamed(error).located()) from None


def _import_server() -> None:
    """Imports the server with the garbage collector off, which saves a tenth of the start-up time."""
    gc.disable()
    try:
        importlib.import_module(SERVER_MODULE)
    finally:
        gc.enable()


def _start_in_background(file: str, overrides: Sequence[str], name: str) -> Started:
    """Starts the server as `nohup … &` does: in a new session, without input, with its output in one file."""
    from kcli.server.logging.rotation import bound_output_file

    log_dir = logs_directory() or "logs"
    log_file = os.path.join(log_dir, f"{name}{CONSOLE_SUFFIX}")
    argv = [sys.executable, "-m", SERVER_MODULE, "--background", file]
    for text in overrides:
        argv += ["--override", text]
    try:
        os.makedirs(log_dir, exist_ok=True)
        bound_output_file(log_file)
        with open(log_file, "ab") as log:
            server = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {LOG_DIR: log_dir},
            )
    except OSError as error:
        raise CommandError(f"cannot start a server that writes to {log_file}: {error.strerror}") from None
    # The server continues to run after this process ends. Without this line Python would warn about an unfinished
    # child.
    server.returncode = 0
    return Started(server.pid, log_file)


command = Command(
    name="server-start",
    description=USAGE,
    options=ServerStartOptions,
    run=run,
    bare=lambda: print(USAGE),
    examples=(
        Example(
            "Format the log directories of a node and start the node:",
            'kcli storage format --standalone -t "$(kcli storage random-uuid)" \\\n'
            "  -c server.properties\n"
            "kcli server-start server.properties",
            is_endless=True,
        ),
        Example(
            "Start a node in the background, with one property changed:",
            "kcli server-start --daemon server.properties \\\n  --override num.partitions=3",
        ),
    ),
    exit_status=(
        (0, "Ctrl-C or SIGTERM stopped the server, or --daemon started it in the background."),
        (1, "The server could not start, its log directories failed, or the options are wrong."),
    ),
)

"""schema-registry: runs a registry of schemas."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommonOptions, UsageError, flag
from kcli.cli.tools import background
from kcli.cli.tools.background import Program
from kcli.command.examples import Example

USAGE = "USAGE: kcli schema-registry [-daemon] schema-registry.properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryOptions(CommonOptions):
    daemon: bool = flag(
        "Run the registry in the background. It writes its log to schema-registry.out in the directory $LOG_DIR "
        "(default: logs)."
    )


def run(options: RegistryOptions, output: Output) -> int:
    if len(options.arguments) != 1:
        raise UsageError(USAGE)
    [file] = options.arguments

    def serve() -> int:
        from kcli.registry.program import run

        return run(file)

    program = Program("kcli.registry.program", "schema-registry", "registry")
    return background.start(program, [file], serve, output, is_daemon=options.daemon)


command = Command(
    name="schema-registry",
    description="This tool runs a schema registry with the REST API of Confluent's, on port 8081. It keeps Avro, JSON "
    "and Protobuf schemas in the topic _schemas. Registries with the same schema.registry.group.id choose a leader, to "
    "which the others forward changes.",
    options=RegistryOptions,
    run=run,
    bare=lambda: print(USAGE),
    examples=(
        Example(
            "Start a registry:",
            "kcli schema-registry config/schema-registry.properties",
            exit_code=130,
            is_endless=True,
        ),
    ),
    exit_status=(
        (0, "-daemon started the registry in the background."),
        (1, "There is no properties file, the configuration is invalid, or the registry could not start."),
        (130, "Ctrl-C stopped the registry."),
        (143, "SIGTERM stopped the registry."),
    ),
)

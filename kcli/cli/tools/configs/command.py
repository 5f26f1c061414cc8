"""kafka-configs: shows and changes the configuration of topics, brokers, groups and more."""

from __future__ import annotations

from kcli.cli.output import Output, java_text
from kcli.cli.syntax.options import Command, CommandError, OnParseError
from kcli.cli.tools.configs.options import CLIENTS, IPS, USERS, ConfigsOptions, checked
from kcli.command.examples import USUAL, Example
from kcli.errors import KafkaError


async def run(options: ConfigsOptions, output: Output) -> None:
    """Checks the options as Kafka does, then describes or alters settings."""
    entity = checked(options)
    try:
        if entity.type in (USERS, CLIENTS, IPS):
            from kcli.cli.tools.configs import quotas

            await quotas.act(options, entity, output)
        else:
            from kcli.cli.tools.configs import resources

            await resources.act(options, entity, output)
    except ValueError as error:
        raise CommandError(str(error)) from error
    except CommandError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise _failed(
                options, f"java.nio.file.NoSuchFileException: {error.__cause__.filename}"
            ) from error
        raise
    except KafkaError as error:
        raise _failed(options, java_text(error)) from error
    except FileNotFoundError as error:
        raise _failed(options, f"java.nio.file.NoSuchFileException: {error.filename}") from error
    except OSError as error:
        if error.filename is None:
            raise  # writing to standard output failed
        raise _failed(options, f"{error.filename}: {error.strerror}") from error


def _failed(options: ConfigsOptions, reason: str) -> CommandError:
    from kcli.cli.tools.configs.quotas import command_line

    arguments = command_line(options.argv)
    return CommandError(f"Error while executing config command with args '{arguments}'\n{reason}")


command = Command(
    name="configs",
    description=(
        "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, "
        "client-metrics or group"
    ),
    options=ConfigsOptions,
    run=run,
    on_parse_error=OnParseError.MESSAGE,
    examples=(
        Example(
            "Keep the records of a topic for one day:",
            "kcli configs --bootstrap-server localhost:9092 --alter --topic orders \\\n"
            "  --add-config retention.ms=86400000",
        ),
        Example(
            'Limit all producers with the client id "reporting" to 1 MiB per second:',
            "kcli configs --bootstrap-server localhost:9092 --alter --client reporting \\\n"
            "  --add-config producer_byte_rate=1048576",
        ),
    ),
    exit_status=USUAL,
)

"""kafka-broker-api-versions: prints for each broker which versions of each API it supports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.output import Output, java_text
from kcli.cli.syntax.options import Command, CommandError, OnParseError, require
from kcli.client.admin.cluster import ApiVersionRange
from kcli.client.client import AUTHENTICATION_ERRORS, Node
from kcli.command.examples import FAILURE, INTERRUPTED, Example
from kcli.errors import KafkaError
from kcli.protocol.wire.api import API, ApiSpec


@dataclass(frozen=True, slots=True)
class ApiRow:
    """One API of one broker. `usable` is the newest version that both sides support, or None."""

    broker: int
    api_key: int
    name: str
    min_version: int | None
    max_version: int | None
    usable: int | None


async def run(options: ClusterOptions, output: Output) -> None:
    """Asks every broker for its API versions and prints them."""
    require(options, "bootstrap-server")
    async with admin(options) as client:
        try:
            nodes = await client.nodes()
        except AUTHENTICATION_ERRORS as error:
            raise CommandError(error.message) from error
        except KafkaError as error:
            shown = ", ".join(
                str(Node(-1 - number, server.host, server.port))
                for number, server in enumerate(client.config.servers)
            )
            raise CommandError(f"Request METADATA failed on brokers [{shown}]") from error
        versions = await client.api_versions(tuple(sorted(nodes, key=lambda node: node.id)))
    for node, ranges in versions.items():
        if isinstance(ranges, KafkaError):
            output.say(f"{node} -> ERROR: {java_text(ranges)}\n")
            continue
        rows = list(_rows(node, ranges))
        output.say(f"{node} -> (")
        if output.is_text:
            output.say(",\n".join(f"\t{_line(row)}" for row in rows))
        else:
            output.rows(rows, _line)
        output.say(")")


def _rows(node: Node, ranges: tuple[ApiVersionRange, ...]) -> Iterator[ApiRow]:
    """Yields the APIs that this tool or the broker supports, in the order of their keys."""
    offered = {offer.key: offer for offer in ranges}
    ours = {int(key): spec for key, spec in API.items() if spec.on_broker}
    for key in sorted({*offered, *ours}):
        spec = ours.get(key)
        name = spec.name if spec is not None else "UNKNOWN"
        offer = offered.get(key)
        if offer is None:
            yield ApiRow(node.id, key, name, None, None, None)
        else:
            yield ApiRow(node.id, key, name, offer.min_version, offer.max_version, _usable(spec, offer))


def _usable(spec: ApiSpec | None, offered: ApiVersionRange) -> int | None:
    if spec is None:
        return None
    newest = min(spec.max_version, offered.max_version)
    return newest if newest >= max(spec.min_version, offered.min_version) else None


def _line(row: ApiRow) -> str:
    if row.min_version is None or row.max_version is None:
        return f"{row.name}({row.api_key}): UNSUPPORTED"
    versions = str(row.min_version)
    if row.max_version != row.min_version:
        versions += f" to {row.max_version}"
    text = f"{row.name}({row.api_key}): {versions}"
    if row.name == "UNKNOWN":
        return text
    if row.usable is not None:
        return f"{text} [usable: {row.usable}]"
    spec = next(spec for spec in API.values() if spec.key == row.api_key)
    return f"{text} [unusable: node too {'new' if row.min_version > spec.max_version else 'old'}]"


command = Command(
    name="broker-api-versions",
    description="This tool helps to retrieve broker version information.",
    options=ClusterOptions,
    run=run,
    on_parse_error=OnParseError.MESSAGE,
    examples=(
        Example(
            "List the API versions of every broker:",
            "kcli broker-api-versions --bootstrap-server localhost:9092",
        ),
    ),
    exit_status=(
        (0, "The versions were printed. For a broker that does not answer, a line with ERROR was printed."),
        FAILURE,
        INTERRUPTED,
    ),
)

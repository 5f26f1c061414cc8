"""Parses `--initial-controllers id@host:port:directory-id,…` (KIP-853)."""

from __future__ import annotations

from kcli.cli.syntax.options import CommandError
from kcli.model.addresses import MAX_PORT, Address
from kcli.model.ids import BrokerId
from kcli.model.java_text import parse_int, trim
from kcli.model.uuids import uuid_from_text
from kcli.raft.voters import ReplicaKey, Voter, VoterSet


def parse_voters(text: str, listener: str) -> VoterSet:
    """Parses the voters, sorted by node id. Raises CommandError with the text of Java's exception."""
    voters: dict[int, Voter] = {}
    for item in (trim(part) for part in text.split(",")):
        if not item:
            continue
        voter = _voter(item, listener)
        if voter.key.id in voters:
            raise _refused(f"Node id {voter.key.id} was specified more than once.")
        voters[voter.key.id] = voter
    if not voters:
        raise _refused("No voters given.")
    return VoterSet(tuple(voters[node_id] for node_id in sorted(voters)))


def _voter(text: str, listener: str) -> Voter:
    node, at, rest = text.partition("@")
    if not at:
        raise _refused("No @ found in dynamic voter string.")
    node_id = _number(node, "node id")
    if rest.startswith("["):
        host, bracket, rest = rest[1:].partition("]")
        if not bracket:
            raise _refused("Hostname began with left bracket, but no right bracket was found.")
        has_colon, rest = rest.startswith(":"), rest[1:]
    else:
        host, colon, rest = rest.partition(":")
        has_colon = bool(colon)
    if not has_colon:
        raise _refused("No colon following hostname could be found.")
    port_text, colon, directory = rest.partition(":")
    if not colon:
        raise _refused("No colon following port could be found.")
    port = _number(port_text, "port")
    if port > MAX_PORT:
        raise _refused(f"Invalid port {port} in dynamic voter string.")
    try:
        directory_id = uuid_from_text(directory)
    except ValueError:
        raise _refused("Failed to parse directory ID in dynamic voter string.") from None
    return Voter(ReplicaKey(BrokerId(node_id), directory_id), {listener: Address(host, port)})


def _number(text: str, what: str) -> int:
    try:
        value = parse_int(text)
    except ValueError:
        raise _refused(f"Failed to parse {what} in dynamic voter string.") from None
    if value < 0:
        raise _refused(f"Invalid negative {what} {value} in dynamic voter string.")
    return value


def _refused(message: str) -> CommandError:
    return CommandError(f'Exception in thread "main" java.lang.IllegalArgumentException: {message}')

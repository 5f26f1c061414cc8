"""Which registry of a group leads, with the JSON of the group protocol `sr`.

Each member sends its identity. The leader of the Kafka group, which is any member, chooses the registry that leads:
the eligible one with the smallest URL, or with `leader.election.sticky` the one that leads already. All members get the
same assignment. Java's registries and Karapace may be in the group, so the JSON is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kcli.model.java_json import json_int, json_object, parse_json
from kcli.model.java_order import text_order
from kcli.protocol.records.json_text import dumps
from kcli.protocol.records.schema import Json

PROTOCOL_TYPE, PROTOCOL_NAME = "sr", "v0"
VERSION = 1
NO_ERROR, DUPLICATE_URLS = 0, 1

METADATA_MAX_BYTES = 64 * 1024
"""The longest identity or assignment. Both have a few hundred bytes, but any client can join the group."""

_PORT_MAX = 65_535
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")
"""A name or an address. Other members send requests to this host, so it must not be able to change their path."""


class InvalidMetadata(ValueError):
    """Bytes of another member that are no identity or no assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """How a registry presents itself to its group. `is_leader` is true in the metadata of a leader that joins again."""

    scheme: str = "http"
    host: str
    port: int
    is_eligible: bool = True
    is_leader: bool = False

    @property
    def text(self) -> str:
        """The text by which registries compare themselves: the URL, but without brackets around an IPv6 address."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether other machines cannot use the URL."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def as_leader(self, is_leader: bool, /) -> Identity:
        return replace(self, is_leader=is_leader)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The result of an election. `member_id` and `identity` are None if no member may lead."""

    member_id: str | None = None
    identity: Identity | None = None
    error: int = NO_ERROR


def encode_identity(identity: Identity) -> bytes:
    return dumps(_identity_json(identity)).encode()


def decode_identity(metadata: bytes) -> Identity:
    """Raises InvalidMetadata."""
    return _identity(_parsed(metadata))


def encode_assignment(assignment: Assignment) -> bytes:
    members: dict[str, Json] = {"error": assignment.error}
    if assignment.member_id is not None and assignment.identity is not None:
        members["master"] = assignment.member_id
        members["master_identity"] = _identity_json(assignment.identity)
    members["version"] = VERSION
    return dumps(members).encode()


def decode_assignment(assignment: bytes) -> Assignment:
    """Raises InvalidMetadata."""
    members = _parsed(assignment)
    try:
        error = json_int(members.get("error", NO_ERROR))
    except ValueError as invalid:
        raise InvalidMetadata(f"error: {invalid}") from None
    member_id, identity = members.get("master"), members.get("master_identity")
    if not isinstance(member_id, str) or not isinstance(identity, dict):
        return Assignment(error=error)
    return Assignment(member_id, _identity(identity), error)


def elect(identities: Mapping[str, Identity], *, sticky: bool) -> Assignment:
    """Chooses the leader among the members of a group. `identities` has the identity of each member id."""
    urls = [identity.text for identity in identities.values()]
    error = NO_ERROR if len(set(urls)) == len(urls) else DUPLICATE_URLS
    eligible = {member_id: identity for member_id, identity in identities.items() if identity.is_eligible}
    leaders = [member_id for member_id, identity in eligible.items() if identity.is_leader]
    if sticky and len(leaders) == 1:
        chosen: str | None = leaders[0]
    else:
        chosen = min(eligible, key=lambda member_id: text_order(eligible[member_id].text), default=None)
    return Assignment(chosen, None if chosen is None else eligible[chosen], error)


def _identity_json(identity: Identity) -> dict[str, Json]:
    return {
        "host": identity.host,
        "port": identity.port,
        "master_eligibility": identity.is_eligible,
        "scheme": identity.scheme,
        "version": VERSION,
        "leader": identity.is_leader,
    }


def _parsed(data: bytes) -> Mapping[str, object]:
    if len(data) > METADATA_MAX_BYTES:
        raise InvalidMetadata(f"{len(data)} bytes are too long")
    try:
        return json_object(parse_json(data.decode()))
    except ValueError as error:
        raise InvalidMetadata(str(error)) from None


def _identity(members: Mapping[str, object]) -> Identity:
    """Karapace's identities have other versions, and no `leader`."""
    host, scheme = members.get("host"), members.get("scheme") or "http"
    if not isinstance(host, str) or not _HOST.fullmatch(host):
        raise InvalidMetadata("host is no name of a host")
    if scheme not in ("http", "https"):
        raise InvalidMetadata("scheme is neither http nor https")
    try:
        port = json_int(members.get("port"))
    except ValueError as error:
        raise InvalidMetadata(f"port: {error}") from None
    if not 0 < port <= _PORT_MAX:
        raise InvalidMetadata(f"port is {port}: expected 1 to {_PORT_MAX}")
    return Identity(
        scheme=str(scheme),
        host=host,
        port=port,
        is_eligible=members.get("master_eligibility") is True,
        is_leader=members.get("leader") is True,
    )

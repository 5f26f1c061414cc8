"""The quorum-state file in `__cluster_metadata-0`: the election state of this voter, as JSON.

Version 0 of the file is for kraft.version 0 and contains the ids of the static voters. Version 1 is for kraft.version
1. Instead of these ids, version 1 contains the directory id of the controller for which this node has voted (KIP-853).
"""

from __future__ import annotations

import json

from kcli.errors import CorruptRecordError
from kcli.model.ids import ZERO_ID, BrokerId, LeaderEpoch
from kcli.model.java_json import json_int, json_object, parse_json
from kcli.model.uuids import uuid_from_text, uuid_to_text
from kcli.raft.election_state import NO_VOTE, ElectionState
from kcli.raft.voters import ReplicaKey
from kcli.runtime.disk import Disk, read_file, replace_file


def read_election_state(disk: Disk, path: str) -> ElectionState | None:
    """Reads the file. Returns None if it does not exist. Raises CorruptRecordError if it is invalid."""
    try:
        content = read_file(disk, path)
    except FileNotFoundError:
        return None
    try:
        fields = json_object(parse_json(content.decode()))
        version = json_int(fields["data_version"])
        voted_id = BrokerId(json_int(fields["votedId"]))
        directory_id = uuid_from_text(str(fields["votedDirectoryId"])) if version == 1 else ZERO_ID
        voters = fields.get("currentVoters") or []
        if not isinstance(voters, list):
            raise ValueError("currentVoters: expected a list")
        static_voters = tuple(BrokerId(json_int(json_object(voter)["voterId"])) for voter in voters)
        state = ElectionState(
            epoch=LeaderEpoch(json_int(fields["leaderEpoch"])),
            leader_id=BrokerId(json_int(fields["leaderId"])),
            voted=None if voted_id == NO_VOTE else ReplicaKey(voted_id, directory_id),
            static_voters=static_voters if version == 0 else None,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptRecordError(f"{path}: not a quorum state: {error!r}") from None
    if version not in (0, 1):
        raise CorruptRecordError(f"{path}: data_version {version}, expected 0 or 1")
    return state


def write_election_state(disk: Disk, path: str, state: ElectionState) -> None:
    """Replaces the file. The new content is durable when the function returns."""
    voted = ReplicaKey(NO_VOTE) if state.voted is None else state.voted
    fields: dict[str, str | int | list[dict[str, int]]]
    if state.static_voters is not None:
        fields = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted.id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter_id} for voter_id in state.static_voters],
            "data_version": 0,
        }
    else:
        fields = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted.id,
            "votedDirectoryId": uuid_to_text(voted.directory_id),
            "data_version": 1,
        }
    replace_file(disk, path, json.dumps(fields, separators=(",", ":")).encode())

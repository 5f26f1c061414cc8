"""The legal moves between the states of a member.

    start       -> Unattached | Follower | Candidate | Resigned
    Unattached  -> Prospective when the election timer ends
    Prospective -> Candidate if a majority would vote for the node
                -> Follower or Unattached, as before, if not
    Candidate   -> Leader if a majority votes for the node
                -> Prospective when the election timer ends
    Leader      -> Resigned
    Resigned    -> Unattached in the next epoch when the election timer ends
    Follower    -> Prospective when the leader does not answer

Every state also moves to Unattached or Follower if the node learns of a newer epoch or of the leader. The only voter of
a quorum becomes Candidate without a pre-vote, and Leader at once.
"""

from __future__ import annotations

from kcli.raft.states.candidate import Candidate
from kcli.raft.states.follower import Follower
from kcli.raft.states.leader import Leader
from kcli.raft.states.prospective import Prospective
from kcli.raft.states.resigned import Resigned
from kcli.raft.states.unattached import Unattached

State = Unattached | Prospective | Candidate | Leader | Follower | Resigned

MOVES: dict[type[State], tuple[type[State], ...]] = {
    Unattached: (Unattached, Prospective, Candidate, Follower),
    Prospective: (Unattached, Prospective, Candidate, Follower),
    Candidate: (Unattached, Prospective, Candidate, Leader, Follower),
    Leader: (Unattached, Follower, Resigned),
    Follower: (Unattached, Prospective, Candidate, Follower),
    Resigned: (Unattached, Candidate, Follower),
}

"""The beans of quotas."""

from __future__ import annotations

from kcli.server.beans.bean import bean
from kcli.server.beans.sources import SERVER, Beans, BeanSources


def quota_beans(sources: BeanSources) -> Beans:
    broker = sources.broker
    if broker is not None:
        for type_, quota in (
            ("LeaderReplication", broker.leader_quota),
            ("FollowerReplication", broker.fetchers.quota),
        ):
            yield bean(SERVER, type_, {"byte-rate": quota.bytes_per_second})

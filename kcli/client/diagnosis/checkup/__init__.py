"""Checks a whole cluster, for `kcli doctor --check-up` and for the console.

`gather` in gather.py reads from the cluster everything that the rules need, and returns a `Snapshot`. `check_up` in
rules.py applies the rules to a snapshot and returns findings, the worst first. The rules send no requests. They work
for Apache Kafka and for kcli. If a request to the cluster fails, its part of the snapshot is in `Snapshot.missing`. The
rules that need this part report that it is missing.
"""

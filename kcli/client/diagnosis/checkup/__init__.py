"""Checks a whole cluster, for `kcli doctor --check-up` and for the console.

`gather` in gather.py asks the cluster for everything that the rules need, and returns a `Snapshot`.
`check_up` in rules.py applies the rules to a snapshot and returns findings, the worst first. The rules are
pure. They work on Apache Kafka and on kcli. If the cluster does not answer a part, the part is in
`Snapshot.missing`, and the rules that need it report this.
"""

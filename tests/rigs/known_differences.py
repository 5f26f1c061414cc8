"""The steps of the recorded stories that come out different, and why. A new one fails; one that became equal too."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    "cluster-features-quorum/001": "APIs that are not served yet show as UNSUPPORTED",
    "cluster-features-quorum/018": "the epoch is the newest metadata offset, not that of the last feature change",
    "configs-users-quotas/007": "Kafka's error repeats the command line with the password in it; ours hides it",
    "console-formatters/009": "librdkafka's members describe themselves in an older version than Java's",
    "console-formatters/011": "librdkafka speaks the first transaction protocol, in which epochs stay",
    "console-formatters/012": "the same",
    "perf-verifiable/005": "--print-metrics shows librdkafka's metrics, not those of the Java producer",
    "perf-verifiable/027": "without a server, Kafka prints null and a NullPointerException; ours says what is missing",
    "perf-verifiable/028": "--print-metrics shows librdkafka's metrics, not those of the Java consumer",
    "perf-verifiable/030": "the recorded producer started so slowly that its records were answered in batches",
    "perf-verifiable/040": "groups without a name are called by random numbers, which nothing masks on stderr",
    "transactions/016": "librdkafka speaks the first transaction protocol, in which epochs stay",
    "transactions/017": "the same",
    "transactions/023": "the recorded tools waited a minute before this step, and the transaction timed out",
}

# Equal in some runs and not in others; each would be equal in the place or at the speed of the recording.
UNSTEADY: dict[str, str] = {
    "storage-format/009": "directories come in the hash order of their paths, which are other paths in each run",
    "storage-format/011": "names the first directory in the hash order of their paths",
}

# Compared, except the number of blanks: a slower or faster machine has other numbers, of more or fewer digits.
WIDTHS: dict[str, str] = {
    "cluster-features-quorum/052": "an offset, which grows with time",
    "cluster-features-quorum/053": "an offset, which grows with time",
    "cluster-features-quorum/055": "an offset, which grows with time",
    "transactions/009": "the milliseconds that a transaction has taken",
    "transactions/015": "the milliseconds that a transaction has taken",
}

# Java's producer chose a partition at random for its records without a key; here it is as in the recording.
STICKS: dict[str, int] = {
    "console-formatters/010": 0,
    "perf-verifiable/007": 0,
    "perf-verifiable/029": 1,
    "perf-verifiable/031": 0,
    "transactions/007": 0,
    "transactions/011": 1,
}

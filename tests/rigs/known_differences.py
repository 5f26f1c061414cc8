"""The recorded steps whose output differs from ours, with the reasons. A test fails for a new difference, and for a
listed difference that has disappeared."""

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

# Steps that are equal only in some runs. Each would be equal with the paths or at the speed of the recording.
UNSTEADY: dict[str, str] = {
    "storage-format/009": "directories come in the hash order of their paths, which are other paths in each run",
    "storage-format/011": "names the first directory in the hash order of their paths",
}

# Steps that are compared without regard to the number of blanks, because numbers may have more or fewer digits on
# another machine.
WIDTHS: dict[str, str] = {
    "cluster-features-quorum/052": "an offset, which grows with time",
    "cluster-features-quorum/053": "an offset, which grows with time",
    "cluster-features-quorum/055": "an offset, which grows with time",
    "transactions/009": "the milliseconds that a transaction has taken",
    "transactions/015": "the milliseconds that a transaction has taken",
}

# For records without a key, Java's producer chose a random partition. These are the partitions of the recording.
STICKS: dict[str, int] = {
    "console-formatters/010": 0,
    "perf-verifiable/007": 0,
    "perf-verifiable/029": 1,
    "perf-verifiable/031": 0,
    "transactions/007": 0,
    "transactions/011": 1,
}

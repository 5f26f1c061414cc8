"""The steps of the recorded stories that come out different, and why. A new one fails; one that became equal too."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    "cluster-features-quorum/001": "APIs that are not served yet show as UNSUPPORTED",
    "cluster-features-quorum/018": "the epoch is the newest metadata offset, not that of the last feature change",
    "configs-users-quotas/007": "Kafka's error repeats the command line with the password in it; ours hides it",
    "perf-verifiable/005": "--print-metrics shows librdkafka's metrics, not those of the Java producer",
    "perf-verifiable/027": "without a server, Kafka prints null and a NullPointerException; ours says what is missing",
    "perf-verifiable/028": "--print-metrics shows librdkafka's metrics, not those of the Java consumer",
    "perf-verifiable/039": "records without a key are in partitions chosen at random, so they come in another order",
    "perf-verifiable/040": "records without a key are in partitions chosen at random, so the offsets are others",
    "transactions/015": "librdkafka spreads records without a key over all partitions, the Java producer sticks to one",
    "transactions/016": "the same, and librdkafka speaks the first transaction protocol, in which epochs stay",
    "transactions/017": "the same",
    "transactions/020": "the same",
    "transactions/023": "the recorded tools waited a minute before this step, and the transaction timed out",
}

# Equal in some runs and not in others; each would be equal in the place or at the speed of the recording.
UNSTEADY: dict[str, str] = {
    "cluster-features-quorum/052": "at the speed of the recording the offset has more digits and so fewer blanks",
    "cluster-features-quorum/053": "at the speed of the recording the offset has more digits and so fewer blanks",
    "cluster-features-quorum/055": "at the speed of the recording the offset has more digits and so fewer blanks",
    "perf-verifiable/029": "records without a key go to partitions chosen at random",
    "perf-verifiable/030": "records without a key go to partitions chosen at random",
    "perf-verifiable/034": "records without a key go to partitions chosen at random",
    "perf-verifiable/035": "records without a key go to partitions chosen at random",
    "perf-verifiable/036": "records without a key go to partitions chosen at random",
    "storage-format/009": "directories come in the hash order of their paths, which are other paths in each run",
    "storage-format/011": "names the first directory in the hash order of their paths",
    "transactions/009": "a column is as wide as the number of milliseconds that a transaction took",
}

"""The steps of the recorded stories that come out different, and why. A new one fails; one that became equal too."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    "cluster-features-quorum/001": "APIs that are not served yet show as UNSUPPORTED",
    "cluster-features-quorum/018": "the epoch is the newest metadata offset, not that of the last feature change",
    "perf-verifiable/005": "--print-metrics shows librdkafka's metrics, not those of the Java producer",
    "perf-verifiable/027": "without a server, Kafka prints null and a NullPointerException; ours says what is missing",
    "perf-verifiable/028": "--print-metrics shows librdkafka's metrics, not those of the Java consumer",
    "perf-verifiable/039": "prints what kafka-verifiable-producer wrote, which is not built yet",
    "perf-verifiable/040": "shows the groups of kafka-verifiable-consumer, which is not built yet",
}

# Equal in some runs and not in others; each would be equal in the place or at the speed of the recording.
UNSTEADY: dict[str, str] = {
    "cluster-features-quorum/052": "at the speed of the recording the offset has more digits and so fewer blanks",
    "cluster-features-quorum/053": "at the speed of the recording the offset has more digits and so fewer blanks",
    "cluster-features-quorum/055": "at the speed of the recording the offset has more digits and so fewer blanks",
    "storage-format/009": "directories come in the hash order of their paths, which are other paths in each run",
    "storage-format/011": "names the first directory in the hash order of their paths",
}

"""The recorded steps whose output differs from ours, with the reasons. A test fails for a new difference, and for a
listed difference that has disappeared."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    "acls-basic/035": "without a terminal, Kafka prints a NullPointerException; ours names --force",
    "acls-basic/036": "the same",
    "cl-cluster/007": "APIs that are not served yet show as UNSUPPORTED, and Java's hash order of brokers differs",
    "cl-cluster/008": "the same",
    "cl-configs/032": "Kafka's loggers are those of its classes",
    "cl-log-dirs/033": "a dump of the metadata log, whose records have other times and ids",
    "cl-node-down/030": "our tool names the reason (no leader), Kafka's only its time-out",
    "cl-node-down/040": "APIs that are not served yet show as UNSUPPORTED",
    "cl-node-down/043": "without a quorum, our tool says that it does not show reassignments",
    "cl-node-down/044": "the same",
    "cl-node-down/045": "Kafka's text has times in it; ours adds the last error",
    "cl-node-down/047": "our tool lists the groups of the brokers that it reaches",
    "cl-node-down/053": "Kafka's broker creates a topic later whose client has left; ours does not",
    "cl-topics/041": "APIs that are not served yet show as UNSUPPORTED",
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
    "sec-acls-shortcuts/032": "without a terminal, Kafka prints a NullPointerException; ours names --force",
    "sec-acls-shortcuts/033": "the same",
    "sec-authorizer-log/022": "librdkafka's consumer asks for its coordinator first, Java's also for metadata",
    "sec-authorizer-log/039": "librdkafka adds the name of the broker to the error",
    "sec-permissions-admin/011": "our tool also shows the log directories of the brokers that answer",
    "sec-permissions-admin/030": "APIs that are not served yet show as UNSUPPORTED",
    "sec-permissions-admin/062": "without the tool for share groups, no group of theirs is looked up",
    "sec-sasl-login/021": "Kafka tries an unknown mechanism until its time-out; kcli refuses it at once",
    "sec-sasl-login/027": "kcli adds the file and the line",
    "sec-sasl-login/034": "Kafka tries an unknown mechanism until its time-out; kcli refuses it at once",
    "sec-sasl-login/054": "Kafka 4.1 does not have --command-property yet",
    "sec-scram/004": "Kafka's error repeats the command line with the password in it; ours hides it",
    "sec-scram/023": "Kafka 4.1 does not have --command-config for this tool yet",
    "sec-scram/028": "Kafka's error repeats the command line with the password in it; ours hides it",
    "sec-scram/029": "the same",
    "sec-scram/030": "the same",
    "sec-scram/032": "the same",
    "sec-scram/034": "the same",
    "sec-tls/034": "kcli refuses TLS 1.1 when it reads the setting, Kafka at the handshake",
    "sec-tls/042": "Kafka's client dies of OutOfMemoryError; kcli names the setting",
    "sec-tls/043": "the same",
    "sec-tls/033": "our tool warns that ssl.protocol has no effect",
    "sec-txn-idempotent-autocreate/028": "librdkafka's consumer does not let a topic be created",
    "sec-txn-idempotent-autocreate/029": "librdkafka adds the name of the broker to the error",
    "sec-txn-idempotent-autocreate/031": "the same",
    "sec-txn-idempotent-autocreate/037": "librdkafka speaks the first transaction protocol, in which epochs stay",
    "sec-txn-idempotent-autocreate/041": "the same",
    "sec-txn-idempotent-autocreate/042": "the payload of the recorded test is random",
    "transactions/016": "librdkafka speaks the first transaction protocol, in which epochs stay",
    "transactions/017": "the same",
    "transactions/023": "the recorded tools waited a minute before this step, and the transaction timed out",
}

# Steps that are equal only in some runs. Each would be equal with the paths or at the speed of the recording.
UNSTEADY: dict[str, str] = {
    "sec-txn-idempotent-autocreate/035": "the producer id depends on how often a refused producer asked again",
    "cl-configs/024": "any broker may answer, with its own dynamic values",
    "cl-node-down/054": "the order in which a consumer reads two partitions",
    "cl-reassign/027": "the order in which two replicas joined the ISR",
    "cl-topics/023": "the placement of a topic is random",
    "cl-topics/026": "the same",
    "cl-topics/043": "a last Metadata request of librdkafka's consumer may create the deleted topic again",
    "cl-topics/044": "the placement of the topics is random",
    "cl-quorum-dynamic/035": "which of two voters leads after the third was removed",
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

"""The documentation of each broker key, in one sentence. DescribeConfigs v3 and later send these texts."""

from __future__ import annotations

from collections.abc import Mapping

BROKER_DOCS: Mapping[str, str] = {
    "add.partitions.to.txn.retry.backoff.max.ms": (
        "Longest time to retry adding a partition to a transaction before the error is returned."
    ),
    "add.partitions.to.txn.retry.backoff.ms": "Pause between two tries to add a partition to a transaction.",
    "advertised.listeners": "Addresses at which clients and brokers connect; if not set, the addresses in listeners.",
    "alter.config.policy.class.name": "Class that accepts or refuses changes of configurations.",
    "alter.log.dirs.replication.quota.window.num": "Windows that measure the rate of moves between log directories.",
    "alter.log.dirs.replication.quota.window.size.seconds": (
        "Length of a window that measures the rate of moves between log directories."
    ),
    "authorizer.class.name": "Class that authorizes requests; without this class, every principal may do everything.",
    "auto.create.topics.enable": "Create a topic when a client first asks for its metadata.",
    "auto.leader.rebalance.enable": "Make the preferred replicas leaders again, at intervals.",
    "background.threads": "Threads for housekeeping.",
    "broker.heartbeat.interval.ms": "Time between two heartbeats of a broker to the controller.",
    "broker.id": "Old name of node.id.",
    "broker.rack": "Rack of this broker. Replicas are spread over racks, and consumers may fetch nearby.",
    "broker.session.timeout.ms": "Time without a heartbeat after which the controller fences a broker.",
    "client.quota.callback.class": "Class that decides the quotas of clients.",
    "compression.gzip.level": "Gzip level used when the broker compresses; -1 is gzip's own default.",
    "compression.lz4.level": "LZ4 level used when the broker compresses.",
    "compression.type": "Codec of batches on disk; with producer, a batch keeps the codec of its producer.",
    "compression.zstd.level": "Zstandard level used when the broker compresses.",
    "connection.failed.authentication.delay.ms": (
        "Delay before a connection that failed to authenticate is closed."
    ),
    "connections.max.idle.ms": "Time without traffic after which a connection is closed.",
    "connections.max.reauth.ms": "Longest life of a SASL session before a new login is needed; 0 means no limit.",
    "controlled.shutdown.enable": "Move leaderships to other brokers before this broker stops.",
    "controller.listener.names": "Listeners of the controller; brokers connect to the first one.",
    "controller.quorum.append.linger.ms": "How long the metadata leader gathers records before it writes them.",
    "controller.quorum.bootstrap.servers": "Addresses at which to find the controllers (dynamic voters).",
    "controller.quorum.election.backoff.max.ms": "Longest pause after an election without a winner.",
    "controller.quorum.election.timeout.ms": "How long a candidate waits for votes.",
    "controller.quorum.fetch.timeout.ms": "A voter that cannot fetch from the leader for this long begins an election.",
    "controller.quorum.request.timeout.ms": "Longest time to wait for the answer of another controller.",
    "controller.quorum.retry.backoff.ms": "Pause before asking another controller again.",
    "controller.quorum.voters": "Controllers of a quorum with static voters, as id@host:port, separated by commas.",
    "controller.quota.window.num": "Windows that measure the rate of partitions created and deleted.",
    "controller.quota.window.size.seconds": (
        "Length of a window that measures the rate of partitions created and deleted."
    ),
    "controller.socket.timeout.ms": "Socket timeout of requests to the controller.",
    "create.topic.policy.class.name": "Class that accepts or refuses new topics.",
    "default.replication.factor": "Number of replicas of a new topic, if its request sets no number.",
    "delegation.token.expiry.check.interval.ms": "Time between two removals of expired delegation tokens.",
    "delegation.token.expiry.time.ms": "Life of a delegation token unless it is renewed.",
    "delegation.token.max.lifetime.ms": "Longest life of a delegation token, renewals included.",
    "delegation.token.secret.key": "Secret that signs delegation tokens.",
    "delete.records.purgatory.purge.interval.requests": (
        "Answered DeleteRecords requests that are kept before their removal."
    ),
    "delete.topic.enable": "Allow topics to be deleted.",
    "early.start.listeners": "Listeners that open before the broker has started completely.",
    "fetch.max.bytes": "Most bytes that one fetch may return.",
    "fetch.purgatory.purge.interval.requests": "Answered fetches that are kept before their removal.",
    "follower.replication.throttled.rate": "Bytes a second that throttled followers may fetch.",
    "group.consumer.assignors": "Assignors that run on the coordinator; the first one is the default.",
    "group.consumer.heartbeat.interval.ms": "Time between heartbeats of members of consumer groups.",
    "group.consumer.max.heartbeat.interval.ms": "Largest heartbeat interval that a group's own configuration may set.",
    "group.consumer.max.session.timeout.ms": "Largest session timeout that a group's own configuration may set.",
    "group.consumer.max.size": "Most members of a consumer group.",
    "group.consumer.migration.policy": "Directions in which groups may change between classic and consumer protocol.",
    "group.consumer.min.heartbeat.interval.ms": "Smallest heartbeat interval that a group's own configuration may set.",
    "group.consumer.min.session.timeout.ms": "Smallest session timeout that a group's own configuration may set.",
    "group.consumer.session.timeout.ms": (
        "Time without a heartbeat after which a member of a consumer group is removed."
    ),
    "group.coordinator.append.linger.ms": "How long the group coordinator gathers records before it writes them.",
    "group.coordinator.rebalance.protocols": "Group protocols that this broker supports.",
    "group.coordinator.threads": "Threads of the group coordinator.",
    "group.initial.rebalance.delay.ms": "Time for which a new classic group waits for more members.",
    "group.max.session.timeout.ms": "Largest session timeout a classic member may ask for.",
    "group.max.size": "Most members of a classic group.",
    "group.min.session.timeout.ms": "Smallest session timeout a classic member may ask for.",
    "group.share.assignors": "Assignors of share groups that run on the coordinator.",
    "group.share.delivery.count.limit": "Most deliveries of one record to a share group.",
    "group.share.heartbeat.interval.ms": "Time between heartbeats of members of share groups.",
    "group.share.max.heartbeat.interval.ms": "Largest heartbeat interval that a share group's config may set.",
    "group.share.max.record.lock.duration.ms": "Longest time to hold a record that a share group's config may set.",
    "group.share.max.session.timeout.ms": "Largest session timeout that a share group's config may set.",
    "group.share.max.share.sessions": "Most share sessions of this broker.",
    "group.share.max.size": "Most members of a share group.",
    "group.share.min.heartbeat.interval.ms": "Smallest heartbeat interval that a share group's config may set.",
    "group.share.min.record.lock.duration.ms": "Shortest time to hold a record that a share group's config may set.",
    "group.share.min.session.timeout.ms": "Smallest session timeout that a share group's config may set.",
    "group.share.partition.max.record.locks": (
        "Most records of a partition that a share group may hold at a time."
    ),
    "group.share.record.lock.duration.ms": "Time that a member of a share group may hold a record.",
    "group.share.session.timeout.ms": "Time without a heartbeat after which a member of a share group is removed.",
    "group.streams.heartbeat.interval.ms": "Time between heartbeats of members of streams groups.",
    "group.streams.max.heartbeat.interval.ms": "Largest heartbeat interval that a streams group's config may set.",
    "group.streams.max.session.timeout.ms": "Largest session timeout that a streams group's config may set.",
    "group.streams.max.size": "Most members of a streams group.",
    "group.streams.max.standby.replicas": (
        "Most standby copies of a task's state that a streams group's config may set."
    ),
    "group.streams.min.heartbeat.interval.ms": "Smallest heartbeat interval that a streams group's config may set.",
    "group.streams.min.session.timeout.ms": "Smallest session timeout that a streams group's config may set.",
    "group.streams.num.standby.replicas": "Standby copies of the state of each task of a streams group.",
    "group.streams.session.timeout.ms": "Time without a heartbeat after which a member of a streams group is removed.",
    "initial.broker.registration.timeout.ms": "How long a starting broker tries to register with the controller.",
    "inter.broker.listener.name": "Listener on which brokers connect to each other.",
    "org.apache.kafka.sasl.oauthbearer.allowed.files": "The files that OAUTHBEARER may read.",
    "org.apache.kafka.sasl.oauthbearer.allowed.urls": (
        "The URLs that OAUTHBEARER may call, exactly as they are written in the other keys."
    ),
    "sasl.oauthbearer.allow.unverified.audience": (
        "Whether tokens for every audience are accepted if sasl.oauthbearer.expected.audience is not set."
    ),
    "sasl.oauthbearer.allow.unverified.issuer": (
        "Whether tokens of every issuer are accepted if sasl.oauthbearer.expected.issuer is not set."
    ),
    "java.security.auth.login.config": (
        "A JAAS file with the login modules of all listeners whose sasl.jaas.config is not set."
    ),
    "kafka.metrics.polling.interval.secs": (
        "Time between two polls of the reporters in kafka.metrics.reporters."
    ),
    "kafka.metrics.reporters": "Classes that report the broker's own metrics.",
    "kcli.log.file.max.bytes": (
        "The size at which a file of the server's log is renamed. Each file is also renamed at each full hour."
    ),
    "kcli.log.files.kept": "The number of renamed files that the server keeps of each of its logs.",
    "kcli.log.format": (
        "The format of the server's log: text, with the lines of Kafka, or json, with one JSON object a line."
    ),
    "kcli.log.levels": (
        "Levels of loggers at the start, as logger=level, separated by commas, such as kafka.request.logger=DEBUG."
    ),
    "kcli.metrics.listener": "The host:port at which metrics are served over HTTP; if not set, metrics are not served.",
    "kcli.metrics.protocol": (
        "The protocol of the metrics endpoint: HTTP or HTTPS. For HTTPS, the keys listener.name.metrics.ssl.* take "
        "precedence over ssl.*."
    ),
    "kcli.metrics.users": "Users of the metrics endpoint, as name:password, separated by spaces.",
    "kcli.trace.endpoint": (
        "The collector that gets spans by OTLP over HTTP, such as http://localhost:4318. If it is not set, the "
        "environment variables OTEL_EXPORTER_OTLP_* name the collector."
    ),
    "kcli.trace.headers": (
        "Whether the broker looks for the header traceparent in the first record of a Produce request. The span of the"
        " request then belongs to the trace of this record, and the request is traced if the record is sampled. The "
        "broker decompresses only the first part of a compressed batch."
    ),
    "kcli.trace.sample.ratio": "The part of all requests that get spans, from 0 (none) to 1 (all).",
    "kcli.trace.slow.ms": (
        "A request that takes at least this number of milliseconds gets spans. The time in which a Fetch waits for "
        "records, or a group for its members, does not count. -1 means never."
    ),
    "kcli.validate.records": (
        "The batches whose records a leader checks before it writes them: all (as in Kafka), uncompressed or none. If "
        "a setting of the topic requires a check of keys or timestamps, the leader checks the records with every "
        "value. With uncompressed and none, one producer can write a compressed batch that stops all consumers of the "
        "topic. To check a compressed batch, the leader must decompress it, which takes 40 ns (lz4) to 300 ns (gzip) "
        "per record of 100 bytes, and 0.3 to 2.6 microseconds per kilobyte. For records of different sizes, the check "
        "takes 0.2 to 0.5 microseconds more. With every value, the leader refuses a batch that states more records "
        "than its bytes can hold."
    ),
    "leader.imbalance.check.interval.seconds": "Time between two searches for leaders that are not preferred replicas.",
    "leader.replication.throttled.rate": "Bytes a second that leaders may serve to throttled followers.",
    "listener.security.protocol.map": "Security protocol of each listener name.",
    "listeners": "Addresses to bind, name://host:port each; an empty host binds the default interface.",
    "log.cleaner.backoff.ms": "Pause of the cleaner when there is nothing to compact.",
    "log.cleaner.dedupe.buffer.size": "Memory for the cleaner's map of keys, shared by its threads.",
    "log.cleaner.delete.retention.ms": "How long a compacted topic keeps a tombstone after it was cleaned.",
    "log.cleaner.enable": "Run the cleaner; without it, compacted topics (also __consumer_offsets) grow for ever.",
    "log.cleaner.io.buffer.load.factor": "Largest share of the cleaner's map of keys that may be in use.",
    "log.cleaner.io.buffer.size": "Memory for the cleaner's reads and writes.",
    "log.cleaner.io.max.bytes.per.second": "Bytes a second that the cleaner may read and write.",
    "log.cleaner.max.compaction.lag.ms": "Longest time a record may stay uncompacted.",
    "log.cleaner.min.cleanable.ratio": "Smallest share of uncompacted bytes with which a log is compacted.",
    "log.cleaner.min.compaction.lag.ms": "Shortest time a record stays uncompacted.",
    "log.cleaner.threads": "Threads of the cleaner.",
    "log.cleanup.policy": "What happens to old segments: delete them, compact them by key, or both.",
    "log.dir": "Directory of the log, if log.dirs is not set.",
    "log.dir.failure.timeout.ms": "Time after which a broker that cannot report a failed directory stops.",
    "log.dirs": "Directories of the log, separated by commas.",
    "log.flush.interval.messages": "Force a sync to disk after this many records.",
    "log.flush.interval.ms": "Force a sync to disk after this time.",
    "log.flush.offset.checkpoint.interval.ms": "Time between two writes of the recovery points.",
    "log.flush.scheduler.interval.ms": "Time between two searches for logs that need a sync.",
    "log.flush.start.offset.checkpoint.interval.ms": "Time between two writes of the log start offsets.",
    "log.index.interval.bytes": "Bytes of records between two entries of the offset index.",
    "log.index.size.max.bytes": "Largest size of one index file.",
    "log.local.retention.bytes": "Bytes that a tiered partition keeps on local disk; -2 means log.retention.bytes.",
    "log.local.retention.ms": "Time for which a tiered partition keeps records locally; -2 means log.retention.ms.",
    "log.message.timestamp.after.max.ms": "How far the timestamp of a record may be ahead of the broker's clock.",
    "log.message.timestamp.before.max.ms": "How far the timestamp of a record may be behind the broker's clock.",
    "log.message.timestamp.type": "Whether a record keeps the timestamp of its producer, or gets the broker's time.",
    "log.preallocate": "Create segment files at their full size.",
    "log.retention.bytes": "Size of a partition above which the oldest segments are deleted; -1 is no limit.",
    "log.retention.check.interval.ms": "Time between two searches for segments to delete.",
    "log.retention.hours": "Hours that records are kept; log.retention.minutes and .ms take precedence.",
    "log.retention.minutes": "Minutes that records are kept; log.retention.ms takes precedence.",
    "log.retention.ms": "Time for which records are kept before their segments are deleted; -1 is no limit.",
    "log.roll.hours": "Age in hours at which a new segment begins; log.roll.ms takes precedence.",
    "log.roll.jitter.hours": "Random hours by which log.roll.hours is reduced; log.roll.jitter.ms takes precedence.",
    "log.roll.jitter.ms": "Random time by which log.roll.ms is reduced, so that segments roll at different times.",
    "log.roll.ms": "Age at which a new segment begins.",
    "log.segment.bytes": "Size at which a new segment begins.",
    "log.segment.delete.delay.ms": "Time for which a deleted segment stays on disk, with the suffix .deleted.",
    "max.connection.creation.rate": "Connections a second that the broker accepts.",
    "max.connections": "Connections that the broker keeps at a time.",
    "max.connections.per.ip": "Connections that one IP address may have at a time.",
    "max.connections.per.ip.overrides": "Limits for single addresses or host names, as host:count,host:count.",
    "max.incremental.fetch.session.cache.slots": "Incremental fetch sessions that the broker remembers.",
    "max.request.partition.size.limit": "Most partitions in one page of DescribeTopicPartitions.",
    "message.max.bytes": "Largest record batch accepted, after compression.",
    "metadata.log.dir": "Directory of the metadata log; if not set, the first of log.dirs.",
    "metadata.log.max.record.bytes.between.snapshots": "Bytes of metadata records after which a snapshot is made.",
    "metadata.log.max.snapshot.interval.ms": "Time after which a snapshot of the metadata is made; 0 is never.",
    "metadata.log.segment.bytes": "Size at which a new segment of the metadata log begins.",
    "metadata.log.segment.ms": "Age at which a new segment of the metadata log begins.",
    "metadata.max.idle.interval.ms": "Idle time after which the controller writes an empty record; 0 means never.",
    "metadata.max.retention.bytes": "Size of the metadata log and its snapshots above which the oldest are deleted.",
    "metadata.max.retention.ms": "Age at which metadata snapshots are deleted.",
    "metric.reporters": "Classes that report metrics.",
    "metrics.jmx.exclude": "Regular expression for the object names of metrics that are not shown.",
    "metrics.jmx.include": "Regular expression for object names; only metrics with such a name are shown.",
    "metrics.num.samples": "Number of samples from which a metric is computed.",
    "metrics.recording.level": "Least important metrics that are recorded: INFO, DEBUG or TRACE.",
    "metrics.sample.window.ms": "Length of one sample of a metric.",
    "min.insync.replicas": "In-sync replicas that a Produce request with acks=all needs.",
    "node.id": "Number of this node, unique in the cluster.",
    "num.io.threads": "Threads that handle requests.",
    "num.network.threads": "Threads of each listener that read and write sockets.",
    "num.partitions": "Number of partitions of a new topic, if its request sets no number.",
    "num.recovery.threads.per.data.dir": "Threads per directory for loading logs at start and flushing at stop.",
    "num.replica.alter.log.dirs.threads": "Threads that move replicas between log directories.",
    "num.replica.fetchers": "Number of fetchers for each broker from which this broker fetches.",
    "offset.metadata.max.bytes": "Largest text that may be committed with an offset.",
    "offsets.commit.timeout.ms": "How long a commit waits for its replicas.",
    "offsets.load.buffer.size": "Bytes read at a time when a coordinator loads offsets.",
    "offsets.retention.check.interval.ms": "Time between two searches for expired offsets.",
    "offsets.retention.minutes": "Minutes for which offsets are kept after the last member has left the group.",
    "offsets.topic.compression.codec": "Codec of the offsets topic, as a number; 0 means no compression.",
    "offsets.topic.num.partitions": "Partitions of __consumer_offsets; do not change this number later.",
    "offsets.topic.replication.factor": "Replicas of __consumer_offsets.",
    "offsets.topic.segment.bytes": "Size of segments of __consumer_offsets.",
    "principal.builder.class": "Class that derives the principal of a connection from its authentication.",
    "process.roles": "Roles of this process: broker, controller, or both.",
    "producer.id.expiration.ms": "Time without a batch after which the broker forgets an idempotent producer.",
    "producer.purgatory.purge.interval.requests": "Answered Produce requests that are kept before their removal.",
    "queued.max.request.bytes": "Bytes of waiting requests at which the broker stops reading more; -1 is no limit.",
    "queued.max.requests": "Number of waiting requests at which the broker stops reading more.",
    "quota.window.num": "Windows that measure the rates of clients.",
    "quota.window.size.seconds": "Length of a window that measures the rates of clients.",
    "remote.fetch.max.wait.ms": "Longest time that a fetch waits for remote storage.",
    "remote.list.offsets.request.timeout.ms": "Longest time that ListOffsets waits for remote storage.",
    "remote.log.index.file.cache.total.size.bytes": "Space for copies of the indexes of remote segments.",
    "remote.log.manager.copier.thread.pool.size": "Threads that copy segments to remote storage.",
    "remote.log.manager.copy.max.bytes.per.second": "Bytes a second that may be copied to remote storage.",
    "remote.log.manager.copy.quota.window.num": "Windows that measure the rate of copies to remote storage.",
    "remote.log.manager.copy.quota.window.size.seconds": (
        "Length of a window that measures the rate of copies to remote storage."
    ),
    "remote.log.manager.expiration.thread.pool.size": (
        "Threads that delete expired segments from remote storage."
    ),
    "remote.log.manager.fetch.max.bytes.per.second": "Bytes a second that may be read from remote storage.",
    "remote.log.manager.fetch.quota.window.num": "Windows that measure the rate of reads from remote storage.",
    "remote.log.manager.fetch.quota.window.size.seconds": (
        "Length of a window that measures the rate of reads from remote storage."
    ),
    "remote.log.manager.task.interval.ms": (
        "Time between two searches for segments to copy to remote storage or to delete there."
    ),
    "remote.log.manager.thread.pool.size": "Threads that plan the work with remote storage.",
    "remote.log.metadata.custom.metadata.max.bytes": (
        "Most bytes that a storage plug-in may add to the metadata of a segment."
    ),
    "remote.log.metadata.manager.class.name": "Class that keeps the metadata of remote segments.",
    "remote.log.metadata.manager.class.path": "Class path of remote.log.metadata.manager.class.name.",
    "remote.log.metadata.manager.impl.prefix": "Prefix of keys that the manager of remote metadata gets.",
    "remote.log.metadata.manager.listener.name": (
        "Listener on which the manager of remote metadata connects to the brokers."
    ),
    "remote.log.reader.max.pending.tasks": "Most reads that may wait for a reader thread.",
    "remote.log.reader.threads": "Threads that read from remote storage.",
    "remote.log.storage.manager.class.name": "Class that stores segments remotely.",
    "remote.log.storage.manager.class.path": "Class path of remote.log.storage.manager.class.name.",
    "remote.log.storage.manager.impl.prefix": "Prefix of keys that the remote storage manager gets.",
    "remote.log.storage.system.enable": "Let topics store old segments remotely (tiered storage).",
    "replica.alter.log.dirs.io.max.bytes.per.second": "Bytes per second for moves of replicas between log directories.",
    "replica.fetch.backoff.ms": "Pause of a follower after a failed fetch.",
    "replica.fetch.max.bytes": "Bytes per partition that a follower asks for.",
    "replica.fetch.min.bytes": "Smallest number of bytes for which a follower's fetch waits.",
    "replica.fetch.response.max.bytes": "Bytes per fetch that a follower asks for.",
    "replica.fetch.wait.max.ms": "How long a follower's fetch waits for data.",
    "replica.high.watermark.checkpoint.interval.ms": "Time between two writes of the high watermarks.",
    "replica.lag.time.max.ms": "Time after which a follower that has not caught up leaves the ISR.",
    "replica.selector.class": "Class that chooses the replica from which a consumer fetches.",
    "replica.socket.receive.buffer.bytes": "Receive buffer of the sockets of followers.",
    "replica.socket.timeout.ms": "Longest time for which a follower waits for an answer.",
    "replication.quota.window.num": "Windows that measure the rates of replication.",
    "replication.quota.window.size.seconds": "Length of a window that measures the rates of replication.",
    "request.timeout.ms": "How long requests to other nodes wait for an answer.",
    "sasl.client.callback.handler.class": "Class that supplies a SASL client with its credentials.",
    "sasl.enabled.mechanisms": "SASL mechanisms that clients may use.",
    "sasl.jaas.config": "SASL settings of a listener and mechanism, in the form of a JAAS file.",
    "sasl.kerberos.kinit.cmd": "Path of the kinit command.",
    "sasl.kerberos.min.time.before.relogin": "Shortest time between two Kerberos logins.",
    "sasl.kerberos.principal.to.local.rules": (
        "Rules that turn a Kerberos principal into a short name; the first rule that matches is used."
    ),
    "sasl.kerberos.service.name": "Kerberos name of the Kafka service.",
    "sasl.kerberos.ticket.renew.jitter": "Random part of the time until a Kerberos ticket is renewed.",
    "sasl.kerberos.ticket.renew.window.factor": "Part of a Kerberos ticket's life after which it is renewed.",
    "sasl.login.callback.handler.class": "Class that supplies the SASL login with its credentials.",
    "sasl.login.class": "Class that performs the SASL login.",
    "sasl.login.connect.timeout.ms": "Longest time to connect to the authorization server (OAUTHBEARER).",
    "sasl.login.read.timeout.ms": "Longest time to read from the authorization server (OAUTHBEARER).",
    "sasl.login.refresh.buffer.seconds": "Shortest time between the refresh of a token and its expiry (OAUTHBEARER).",
    "sasl.login.refresh.min.period.seconds": "Shortest time between two refreshes of a token (OAUTHBEARER).",
    "sasl.login.refresh.window.factor": "Part of a token's life after which it is refreshed (OAUTHBEARER).",
    "sasl.login.refresh.window.jitter": "Random part of the time until a token is refreshed (OAUTHBEARER).",
    "sasl.login.retry.backoff.max.ms": "Longest pause between two tries to log in (OAUTHBEARER).",
    "sasl.login.retry.backoff.ms": "First pause between two tries to log in (OAUTHBEARER).",
    "sasl.mechanism.controller.protocol": "SASL mechanism of connections to the controller.",
    "sasl.mechanism.inter.broker.protocol": "SASL mechanism of connections between brokers.",
    "sasl.oauthbearer.assertion.algorithm": "Algorithm that signs the assertion of a client (OAUTHBEARER).",
    "sasl.oauthbearer.assertion.claim.aud": "Audience claim of a client's assertion.",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "Seconds until a client's assertion expires.",
    "sasl.oauthbearer.assertion.claim.iss": "Issuer claim of a client's assertion.",
    "sasl.oauthbearer.assertion.claim.jti.include": "Give each assertion of a client its own id.",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": (
        "Seconds by which a client's assertion is already valid before it is made."
    ),
    "sasl.oauthbearer.assertion.claim.sub": "Subject claim of a client's assertion.",
    "sasl.oauthbearer.assertion.file": "File with an assertion of a client that is already signed.",
    "sasl.oauthbearer.assertion.private.key.file": (
        "File with the private key that signs a client's assertion."
    ),
    "sasl.oauthbearer.assertion.private.key.passphrase": "Password of the private key that signs a client's assertion.",
    "sasl.oauthbearer.assertion.template.file": "File with headers and claims for a client's assertion.",
    "sasl.oauthbearer.client.credentials.client.id": "Client id for the authorization server (OAUTHBEARER).",
    "sasl.oauthbearer.client.credentials.client.secret": (
        "Client secret for the authorization server (OAUTHBEARER)."
    ),
    "sasl.oauthbearer.clock.skew.seconds": (
        "Accepted difference between the clocks of broker and authorization server."
    ),
    "sasl.oauthbearer.expected.audience": "Audiences, of which a token must name at least one.",
    "sasl.oauthbearer.expected.issuer": "Issuer that a token must name.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "Time between two refreshes of the keys that verify tokens.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": (
        "Longest pause between two tries to fetch the keys that verify tokens."
    ),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": (
        "First pause between two tries to fetch the keys that verify tokens."
    ),
    "sasl.oauthbearer.jwks.endpoint.url": "Address of the keys that verify tokens.",
    "sasl.oauthbearer.jwt.retriever.class": "Class that fetches a token for a client.",
    "sasl.oauthbearer.jwt.validator.class": "Class that checks a token.",
    "sasl.oauthbearer.scope": "Scope for which a client asks the authorization server.",
    "sasl.oauthbearer.scope.claim.name": "Claim of a token that holds its scope.",
    "sasl.oauthbearer.sub.claim.name": "Claim of a token that holds its subject.",
    "sasl.oauthbearer.token.endpoint.url": "Address at which the authorization server issues tokens.",
    "sasl.server.callback.handler.class": "Class that checks the credentials of SASL clients.",
    "sasl.server.max.receive.size": (
        "Most bytes of a request that arrives before the client is authenticated."
    ),
    "security.inter.broker.protocol": "Security protocol between brokers, if no inter-broker listener is named.",
    "security.providers": "Classes that supply security algorithms.",
    "share.coordinator.append.linger.ms": (
        "How long the share coordinator gathers records before it writes them."
    ),
    "share.coordinator.load.buffer.size": (
        "Bytes that are read at a time while the state of share groups is loaded."
    ),
    "share.coordinator.snapshot.update.records.per.snapshot": (
        "Updates of a share partition's state between two of its snapshots."
    ),
    "share.coordinator.state.topic.compression.codec": "Codec of the share coordinator's topic.",
    "share.coordinator.state.topic.min.isr": "In-sync replicas that __share_group_state needs.",
    "share.coordinator.state.topic.num.partitions": "Partitions of __share_group_state.",
    "share.coordinator.state.topic.replication.factor": "Replicas of __share_group_state.",
    "share.coordinator.state.topic.segment.bytes": "Segment size of the share coordinator's topic.",
    "share.coordinator.threads": "Threads of the share coordinator.",
    "share.coordinator.write.timeout.ms": (
        "Longest time to write the state of a share group to all in-sync replicas."
    ),
    "share.fetch.purgatory.purge.interval.requests": "Answered share fetches that are kept before their removal.",
    "socket.connection.setup.timeout.max.ms": "Longest time to wait for a connection after several failures.",
    "socket.connection.setup.timeout.ms": (
        "Time-out of the first attempt to connect; each failure increases the time-out."
    ),
    "socket.listen.backlog.size": "Number of connections that may wait to be accepted.",
    "socket.receive.buffer.bytes": "Receive buffer of sockets; -1 means the size that the system chooses.",
    "socket.request.max.bytes": "Largest request that is read.",
    "socket.send.buffer.bytes": "Send buffer of sockets; -1 means the size that the system chooses.",
    "ssl.allow.dn.changes": "Accept a new certificate with another subject while the node runs.",
    "ssl.allow.san.changes": "Accept a new certificate without some names of the old certificate while the node runs.",
    "ssl.cipher.suites": "Allowed cipher suites; if empty, all available suites.",
    "ssl.client.auth": "Whether clients must show a certificate: required, requested or none.",
    "ssl.enabled.protocols": "TLS versions that connections may use.",
    "ssl.endpoint.identification.algorithm": (
        "How a client compares the name of a server with the server's certificate; empty means no comparison."
    ),
    "ssl.engine.factory.class": "Class that makes the TLS engines.",
    "ssl.key.password": "Password of the private key in the key store.",
    "ssl.keymanager.algorithm": "Algorithm of the key manager.",
    "ssl.keystore.certificate.chain": "Certificates of this node, as PEM text.",
    "ssl.keystore.key": "Private key of this node, as PEM text.",
    "ssl.keystore.location": "File with the private key and the certificates of this node.",
    "ssl.keystore.password": "Password of the key store.",
    "ssl.keystore.type": "Format of the key store: JKS, PKCS12 or PEM.",
    "ssl.principal.mapping.rules": (
        "Rules that turn the subject of a client's certificate into a user name; the first rule that matches is used."
    ),
    "ssl.protocol": "Newest TLS version that this node offers.",
    "ssl.provider": "Security provider of TLS connections.",
    "ssl.secure.random.implementation": "Generator of random numbers for TLS.",
    "ssl.trustmanager.algorithm": "Algorithm of the trust manager.",
    "ssl.truststore.certificates": "Trusted certificates, as PEM text.",
    "ssl.truststore.location": "File with the trusted certificates.",
    "ssl.truststore.password": "Password of the trust store.",
    "ssl.truststore.type": "Format of the trust store: JKS, PKCS12 or PEM.",
    "telemetry.max.bytes": "Largest number of bytes of metrics in one push of a client.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "Time between two searches for overdue transactions."
    ),
    "transaction.max.timeout.ms": "Longest transaction timeout a producer may ask for.",
    "transaction.partition.verification.enable": "Check that a partition was added to its transaction before a write.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "Time between two searches for expired ids.",
    "transaction.state.log.load.buffer.size": "Bytes read at a time when a coordinator loads transactions.",
    "transaction.state.log.min.isr": "In-sync replicas that __transaction_state needs.",
    "transaction.state.log.num.partitions": "Partitions of __transaction_state; do not change this number later.",
    "transaction.state.log.replication.factor": "Replicas of __transaction_state.",
    "transaction.state.log.segment.bytes": "Size of segments of __transaction_state.",
    "transaction.two.phase.commit.enable": "Let producers keep prepared transactions open (KIP-939).",
    "transactional.id.expiration.ms": "Time after which an unused transactional id is removed.",
    "unclean.leader.election.enable": "Let a replica that is not in sync lead, although records may be lost.",
}

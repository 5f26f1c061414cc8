"""The documentation of each broker key, in one sentence. DescribeConfigs v3 and later send these texts."""

from __future__ import annotations

from collections.abc import Mapping

BROKER_DOCS: Mapping[str, str] = {
    "add.partitions.to.txn.retry.backoff.max.ms": (
        "Longest time to retry adding a partition to a transaction before the error is returned."
    ),
    "add.partitions.to.txn.retry.backoff.ms": "Pause between two tries to add a partition to a transaction.",
    "advertised.listeners": "Addresses that clients and brokers connect to; if not set, those of listeners.",
    "alter.config.policy.class.name": "Class asked before a configuration is changed.",
    "alter.log.dirs.replication.quota.window.num": (
        "Windows kept to measure the rate of moves between log directories."
    ),
    "alter.log.dirs.replication.quota.window.size.seconds": (
        "Length of a window that measures the rate of moves between log directories."
    ),
    "authorizer.class.name": "Class that authorizes requests; without one every principal may do everything.",
    "auto.create.topics.enable": "Create a topic when a client first asks for its metadata.",
    "auto.leader.rebalance.enable": "Give leadership back to preferred replicas from time to time.",
    "background.threads": "Threads for housekeeping.",
    "broker.heartbeat.interval.ms": "Time between two heartbeats of a broker to the controller.",
    "broker.id": "Old name of node.id.",
    "broker.rack": "Where this broker stands; replicas are spread over racks and consumers may fetch nearby.",
    "broker.session.timeout.ms": "A broker silent for this long is fenced by the controller.",
    "client.quota.callback.class": "Class that decides the quotas of clients.",
    "compression.gzip.level": "Gzip level used when the broker compresses; -1 is gzip's own default.",
    "compression.lz4.level": "LZ4 level used when the broker compresses.",
    "compression.type": "Codec of batches on disk; producer keeps the codec they arrived with.",
    "compression.zstd.level": "Zstandard level used when the broker compresses.",
    "connection.failed.authentication.delay.ms": (
        "Delay before a connection that failed to authenticate is closed."
    ),
    "connections.max.idle.ms": "A connection without traffic for this long is closed.",
    "connections.max.reauth.ms": "Longest life of a SASL session before it must authenticate again; 0 is forever.",
    "controlled.shutdown.enable": "Hand leadership to other brokers before stopping.",
    "controller.listener.names": "Listeners that belong to the controller; brokers talk to it on the first.",
    "controller.quorum.append.linger.ms": "How long the metadata leader gathers records before it writes them.",
    "controller.quorum.bootstrap.servers": "Addresses at which to find the controllers (dynamic voters).",
    "controller.quorum.election.backoff.max.ms": "Longest pause after an election without a winner.",
    "controller.quorum.election.timeout.ms": "How long a candidate waits for votes.",
    "controller.quorum.fetch.timeout.ms": "A voter that cannot fetch from the leader for this long begins an election.",
    "controller.quorum.request.timeout.ms": "How long to wait for an answer of another controller.",
    "controller.quorum.retry.backoff.ms": "Pause before asking another controller again.",
    "controller.quorum.voters": "The controllers, id@host:port each, of a quorum with static voters.",
    "controller.quota.window.num": "Windows kept to measure the rate of partitions created and deleted.",
    "controller.quota.window.size.seconds": (
        "Length of a window that measures the rate of partitions created and deleted."
    ),
    "controller.socket.timeout.ms": "Socket timeout of requests to the controller.",
    "create.topic.policy.class.name": "Class asked before a topic is created.",
    "default.replication.factor": "Replicas of topics created without a number of their own.",
    "delegation.token.expiry.check.interval.ms": "Time between two removals of expired delegation tokens.",
    "delegation.token.expiry.time.ms": "Life of a delegation token unless it is renewed.",
    "delegation.token.max.lifetime.ms": "Longest life of a delegation token, renewals included.",
    "delegation.token.secret.key": "Secret that signs delegation tokens.",
    "delete.records.purgatory.purge.interval.requests": (
        "Answered DeleteRecords requests kept before they are cleared away."
    ),
    "delete.topic.enable": "Allow topics to be deleted.",
    "early.start.listeners": "Listeners opened before the broker is fully up.",
    "fetch.max.bytes": "Most bytes that one fetch may return.",
    "fetch.purgatory.purge.interval.requests": "Answered fetches kept before they are cleared away.",
    "follower.replication.throttled.rate": "Bytes a second that throttled followers may fetch.",
    "group.consumer.assignors": "Server-side assignors, the first being the default.",
    "group.consumer.heartbeat.interval.ms": "Time between heartbeats of members of consumer groups.",
    "group.consumer.max.heartbeat.interval.ms": "Largest heartbeat interval a group may be given.",
    "group.consumer.max.session.timeout.ms": "Largest session timeout a group may be given.",
    "group.consumer.max.size": "Most members of a consumer group.",
    "group.consumer.migration.policy": "Which way groups may move between the classic and the consumer protocol.",
    "group.consumer.min.heartbeat.interval.ms": "Smallest heartbeat interval a group may be given.",
    "group.consumer.min.session.timeout.ms": "Smallest session timeout a group may be given.",
    "group.consumer.session.timeout.ms": "A consumer group member silent for this long is removed.",
    "group.coordinator.append.linger.ms": "How long the group coordinator gathers records before it writes them.",
    "group.coordinator.rebalance.protocols": "The group protocols this broker speaks.",
    "group.coordinator.threads": "Threads of the group coordinator.",
    "group.initial.rebalance.delay.ms": "How long a new classic group waits for more members before it rebalances.",
    "group.max.session.timeout.ms": "Largest session timeout a classic member may ask for.",
    "group.max.size": "Most members of a classic group.",
    "group.min.session.timeout.ms": "Smallest session timeout a classic member may ask for.",
    "group.share.assignors": "Server-side assignors of share groups.",
    "group.share.delivery.count.limit": "Most deliveries of one record to a share group.",
    "group.share.heartbeat.interval.ms": "Time between heartbeats of members of share groups.",
    "group.share.max.heartbeat.interval.ms": "Largest heartbeat interval a share group may be given.",
    "group.share.max.record.lock.duration.ms": (
        "Longest time that a share group may be given to hold a record."
    ),
    "group.share.max.session.timeout.ms": "Largest session timeout a share group may be given.",
    "group.share.max.share.sessions": "Most share sessions of this broker.",
    "group.share.max.size": "Most members of a share group.",
    "group.share.min.heartbeat.interval.ms": "Smallest heartbeat interval a share group may be given.",
    "group.share.min.record.lock.duration.ms": (
        "Shortest time that a share group may be given to hold a record."
    ),
    "group.share.min.session.timeout.ms": "Smallest session timeout a share group may be given.",
    "group.share.partition.max.record.locks": (
        "Most records of a partition that a share group may hold at a time."
    ),
    "group.share.record.lock.duration.ms": "Time that a member of a share group may hold a record.",
    "group.share.session.timeout.ms": "A share group member silent for this long is removed.",
    "group.streams.heartbeat.interval.ms": "Time between heartbeats of members of streams groups.",
    "group.streams.max.heartbeat.interval.ms": "Largest heartbeat interval a streams group may be given.",
    "group.streams.max.session.timeout.ms": "Largest session timeout a streams group may be given.",
    "group.streams.max.size": "Most members of a streams group.",
    "group.streams.max.standby.replicas": (
        "Most standby copies of a task's state that a streams group may be given."
    ),
    "group.streams.min.heartbeat.interval.ms": "Smallest heartbeat interval a streams group may be given.",
    "group.streams.min.session.timeout.ms": "Smallest session timeout a streams group may be given.",
    "group.streams.num.standby.replicas": "Standby copies of the state of each task of a streams group.",
    "group.streams.session.timeout.ms": "A streams group member silent for this long is removed.",
    "initial.broker.registration.timeout.ms": "How long a starting broker tries to register with the controller.",
    "inter.broker.listener.name": "The listener on which brokers talk to each other.",
    "org.apache.kafka.sasl.oauthbearer.allowed.files": "The files that OAUTHBEARER may read.",
    "org.apache.kafka.sasl.oauthbearer.allowed.urls": "The URLs that OAUTHBEARER may call, as they are configured.",
    "sasl.oauthbearer.allow.unverified.audience": (
        "Whether tokens for every audience are accepted if sasl.oauthbearer.expected.audience is not set."
    ),
    "sasl.oauthbearer.allow.unverified.issuer": (
        "Whether tokens of every issuer are accepted if sasl.oauthbearer.expected.issuer is not set."
    ),
    "java.security.auth.login.config": (
        "A JAAS file. It gives the login modules of listeners whose sasl.jaas.config is not set."
    ),
    "kafka.metrics.polling.interval.secs": (
        "Time between two polls of the reporters in kafka.metrics.reporters."
    ),
    "kafka.metrics.reporters": "Classes that report the broker's own metrics.",
    "kcli.log.file.max.bytes": (
        "The size at which a file of the server's log is renamed. Each file is also renamed at each full hour."
    ),
    "kcli.log.files.kept": "The number of renamed files that are kept of each of the server's logs.",
    "kcli.log.format": (
        "The format of the server's log: text, with the lines of Kafka, or json, with one JSON object a line."
    ),
    "kcli.log.levels": (
        "Levels of loggers at the start, as logger=level, separated by commas, such as kafka.request.logger=DEBUG."
    ),
    "kcli.metrics.listener": "host:port at which metrics are served over HTTP; if not set, they are not served.",
    "kcli.metrics.protocol": (
        "HTTP, or HTTPS with the ssl.* keys of a listener named METRICS (listener.name.metrics.ssl.*)."
    ),
    "kcli.metrics.users": "Users of the metrics endpoint, as name:password, separated by spaces.",
    "kcli.trace.endpoint": (
        "The collector that gets spans by OTLP over HTTP, such as http://localhost:4318. If it is not set, the "
        "environment variables OTEL_EXPORTER_OTLP_* name the collector."
    ),
    "kcli.trace.headers": (
        "Whether the broker reads the first record of each Produce request for the header traceparent. The span of the "
        "request then belongs to the trace of this record, and the request is traced if the record is sampled. A "
        "compressed batch is decompressed for this, in part."
    ),
    "kcli.trace.sample.ratio": "The part of all requests that get spans, from 0 (none) to 1 (all).",
    "kcli.trace.slow.ms": (
        "A request that takes at least this number of milliseconds gets spans. Time in which a request waits on "
        "purpose, as a Fetch for records, does not count. -1 means never."
    ),
    "kcli.validate.records": (
        "The batches whose records are read before a leader writes them: all (as in Kafka), uncompressed "
        "ones, or only those for which a rule of the topic needs it (keys, time bounds). Reading costs a "
        "twentieth of the CPU of producing for records of one size, 0.2 to 0.8 microseconds a record for "
        "uneven ones, and for compressed ones the decompression: 65 (lz4) to 520 ns (gzip) for 100 bytes, 0.6"
        " to 3 microseconds for a kilobyte. That is more than a tenth, so it is not the default."
    ),
    "leader.imbalance.check.interval.seconds": "Time between two looks for leaders that are not the preferred ones.",
    "leader.replication.throttled.rate": "Bytes a second that leaders may serve to throttled followers.",
    "listener.security.protocol.map": "Security protocol of each listener name.",
    "listeners": "Addresses to bind, name://host:port each; an empty host binds the default interface.",
    "log.cleaner.backoff.ms": "Pause of the cleaner when there is nothing to compact.",
    "log.cleaner.dedupe.buffer.size": "Memory for the cleaner's map of keys, shared by its threads.",
    "log.cleaner.delete.retention.ms": "How long a compacted topic keeps a tombstone after it was cleaned.",
    "log.cleaner.enable": "Run the cleaner; without it compacted topics, offsets among them, grow for ever.",
    "log.cleaner.io.buffer.load.factor": "How full the cleaner's map of keys may get.",
    "log.cleaner.io.buffer.size": "Memory for the cleaner's reads and writes.",
    "log.cleaner.io.max.bytes.per.second": "Bytes a second that the cleaner may read and write.",
    "log.cleaner.max.compaction.lag.ms": "Longest time a record may stay uncompacted.",
    "log.cleaner.min.cleanable.ratio": "Share of uncompacted bytes from which a log is worth compacting.",
    "log.cleaner.min.compaction.lag.ms": "Shortest time a record stays uncompacted.",
    "log.cleaner.threads": "Threads of the cleaner.",
    "log.cleanup.policy": "What happens to old segments: delete them, compact them by key, or both.",
    "log.dir": "Directory of the log, if log.dirs is not set.",
    "log.dir.failure.timeout.ms": "A broker that cannot report a failed directory for this long stops.",
    "log.dirs": "Directories of the log, separated by commas.",
    "log.flush.interval.messages": "Force a sync to disk after this many records.",
    "log.flush.interval.ms": "Force a sync to disk after this long.",
    "log.flush.offset.checkpoint.interval.ms": "Time between two writes of the recovery points.",
    "log.flush.scheduler.interval.ms": "Time between two looks for logs that need a sync.",
    "log.flush.start.offset.checkpoint.interval.ms": "Time between two writes of the log start offsets.",
    "log.index.interval.bytes": "Bytes of records between two entries of the offset index.",
    "log.index.size.max.bytes": "Largest size of one index file.",
    "log.local.retention.bytes": "Bytes kept on local disk once tiered; -2 follows log.retention.bytes.",
    "log.local.retention.ms": "Time kept on local disk once tiered; -2 follows log.retention.ms.",
    "log.message.timestamp.after.max.ms": "How far ahead of the broker's clock a record's timestamp may be.",
    "log.message.timestamp.before.max.ms": "How far behind the broker's clock a record's timestamp may be.",
    "log.message.timestamp.type": "Whether records keep the producer's timestamp or get the broker's.",
    "log.preallocate": "Create segment files at their full size.",
    "log.retention.bytes": "Bytes kept per partition before old segments go; -1 is no limit.",
    "log.retention.check.interval.ms": "Time between two looks for segments to delete.",
    "log.retention.hours": "Hours that records are kept; log.retention.minutes and .ms take precedence.",
    "log.retention.minutes": "Minutes that records are kept; log.retention.ms takes precedence.",
    "log.retention.ms": "Time that records are kept before old segments go; -1 is no limit.",
    "log.roll.hours": "Age in hours at which a new segment is begun; log.roll.ms takes precedence.",
    "log.roll.jitter.hours": "Random hours off the age at which segments roll; log.roll.jitter.ms takes precedence.",
    "log.roll.jitter.ms": "Random time taken off the age at which segments roll.",
    "log.roll.ms": "Age at which a new segment is begun.",
    "log.segment.bytes": "Size at which a new segment is begun.",
    "log.segment.delete.delay.ms": "How long a removed segment waits under its .deleted name.",
    "max.connection.creation.rate": "Connections a second that the broker accepts.",
    "max.connections": "Connections that the broker keeps at a time.",
    "max.connections.per.ip": "Connections that one address may hold at a time.",
    "max.connections.per.ip.overrides": "Limits of single addresses or host names, host:count each.",
    "max.incremental.fetch.session.cache.slots": "Incremental fetch sessions that the broker remembers.",
    "max.request.partition.size.limit": "Most partitions in one page of DescribeTopicPartitions.",
    "message.max.bytes": "Largest record batch accepted, after compression.",
    "metadata.log.dir": "Directory of the metadata log; if not set, the first of log.dirs.",
    "metadata.log.max.record.bytes.between.snapshots": "Bytes of metadata records after which a snapshot is made.",
    "metadata.log.max.snapshot.interval.ms": "Time after which a snapshot of the metadata is made; 0 is never.",
    "metadata.log.segment.bytes": "Size at which a new segment of the metadata log is begun.",
    "metadata.log.segment.ms": "Age at which a new segment of the metadata log is begun.",
    "metadata.max.idle.interval.ms": "The controller writes an empty record when idle for this long; 0 is never.",
    "metadata.max.retention.bytes": "Size of metadata log and snapshots above which the oldest go.",
    "metadata.max.retention.ms": "Age of metadata snapshots above which the oldest go.",
    "metric.reporters": "Classes that report metrics.",
    "metrics.jmx.exclude": "Regular expression of the object names of metrics that are not shown.",
    "metrics.jmx.include": "Regular expression of the object names of the only metrics that are shown.",
    "metrics.num.samples": "Samples kept to compute a metric.",
    "metrics.recording.level": "Least important metrics that are recorded: INFO, DEBUG or TRACE.",
    "metrics.sample.window.ms": "Length of one sample of a metric.",
    "min.insync.replicas": "In-sync replicas that a produce with acks=all needs.",
    "node.id": "Number of this node, unique in the cluster.",
    "num.io.threads": "Threads that handle requests.",
    "num.network.threads": "Threads of each listener that read and write sockets.",
    "num.partitions": "Partitions of topics created without a number of their own.",
    "num.recovery.threads.per.data.dir": "Threads per directory for loading logs at start and flushing at stop.",
    "num.replica.alter.log.dirs.threads": "Threads that move replicas between log directories.",
    "num.replica.fetchers": "Fetchers per broker that is fetched from.",
    "offset.metadata.max.bytes": "Largest text that may be committed with an offset.",
    "offsets.commit.timeout.ms": "How long a commit waits for its replicas.",
    "offsets.load.buffer.size": "Bytes read at a time when a coordinator loads offsets.",
    "offsets.retention.check.interval.ms": "Time between two looks for offsets to expire.",
    "offsets.retention.minutes": "Minutes that offsets outlive their group's last member.",
    "offsets.topic.compression.codec": "Codec of the offsets topic, as a number; 0 means no compression.",
    "offsets.topic.num.partitions": "Partitions of __consumer_offsets; not to be changed later.",
    "offsets.topic.replication.factor": "Replicas of __consumer_offsets.",
    "offsets.topic.segment.bytes": "Size of segments of __consumer_offsets.",
    "principal.builder.class": "Class that derives the principal of a connection from its authentication.",
    "process.roles": "Roles of this process: broker, controller, or both.",
    "producer.id.expiration.ms": "How long an idle idempotent producer is remembered.",
    "producer.purgatory.purge.interval.requests": (
        "Answered produce requests kept before they are cleared away."
    ),
    "queued.max.request.bytes": "Bytes of requests held before no more are read; -1 is no limit.",
    "queued.max.requests": "Requests held before no more are read.",
    "quota.window.num": "Windows kept to measure the rates of clients.",
    "quota.window.size.seconds": "Length of a window that measures the rates of clients.",
    "remote.fetch.max.wait.ms": "Longest time that a fetch waits for remote storage.",
    "remote.list.offsets.request.timeout.ms": "Longest time that ListOffsets waits for remote storage.",
    "remote.log.index.file.cache.total.size.bytes": "Space for copies of the indexes of remote segments.",
    "remote.log.manager.copier.thread.pool.size": "Threads that copy segments to remote storage.",
    "remote.log.manager.copy.max.bytes.per.second": "Bytes a second that may be copied to remote storage.",
    "remote.log.manager.copy.quota.window.num": (
        "Windows kept to measure the rate of copies to remote storage."
    ),
    "remote.log.manager.copy.quota.window.size.seconds": (
        "Length of a window that measures the rate of copies to remote storage."
    ),
    "remote.log.manager.expiration.thread.pool.size": (
        "Threads that delete expired segments from remote storage."
    ),
    "remote.log.manager.fetch.max.bytes.per.second": "Bytes a second that may be read from remote storage.",
    "remote.log.manager.fetch.quota.window.num": (
        "Windows kept to measure the rate of reads from remote storage."
    ),
    "remote.log.manager.fetch.quota.window.size.seconds": (
        "Length of a window that measures the rate of reads from remote storage."
    ),
    "remote.log.manager.task.interval.ms": (
        "Time between two looks for segments to copy to remote storage or to delete there."
    ),
    "remote.log.manager.thread.pool.size": "Threads that plan the work with remote storage.",
    "remote.log.metadata.custom.metadata.max.bytes": (
        "Most bytes that a storage plug-in may add to the metadata of a segment."
    ),
    "remote.log.metadata.manager.class.name": "Class that keeps the metadata of remote segments.",
    "remote.log.metadata.manager.class.path": "Class path of remote.log.metadata.manager.class.name.",
    "remote.log.metadata.manager.impl.prefix": (
        "Prefix of keys that are handed to the manager of remote metadata."
    ),
    "remote.log.metadata.manager.listener.name": (
        "Listener on which the manager of remote metadata connects to the brokers."
    ),
    "remote.log.reader.max.pending.tasks": "Most reads that may wait for a reader thread.",
    "remote.log.reader.threads": "Threads that read from remote storage.",
    "remote.log.storage.manager.class.name": "Class that stores segments remotely.",
    "remote.log.storage.manager.class.path": "Class path of remote.log.storage.manager.class.name.",
    "remote.log.storage.manager.impl.prefix": "Prefix of keys that are handed to the remote storage manager.",
    "remote.log.storage.system.enable": "Let topics store old segments remotely (tiered storage).",
    "replica.alter.log.dirs.io.max.bytes.per.second": "Bytes a second for moving replicas between directories.",
    "replica.fetch.backoff.ms": "Pause of a follower after a failed fetch.",
    "replica.fetch.max.bytes": "Bytes per partition that a follower asks for.",
    "replica.fetch.min.bytes": "Least bytes that a follower waits for.",
    "replica.fetch.response.max.bytes": "Bytes per fetch that a follower asks for.",
    "replica.fetch.wait.max.ms": "How long a follower's fetch waits for data.",
    "replica.high.watermark.checkpoint.interval.ms": "Time between two writes of the high watermarks.",
    "replica.lag.time.max.ms": "A follower that has not caught up for this long leaves the in-sync set.",
    "replica.selector.class": "Class that picks the replica a consumer fetches from.",
    "replica.socket.receive.buffer.bytes": "Receive buffer of the sockets that followers fetch with.",
    "replica.socket.timeout.ms": "How long a follower waits for an answer.",
    "replication.quota.window.num": "Windows kept to measure the rates of replication.",
    "replication.quota.window.size.seconds": "Length of a window that measures the rates of replication.",
    "request.timeout.ms": "How long requests to other nodes wait for an answer.",
    "sasl.client.callback.handler.class": "Class that supplies a SASL client with its credentials.",
    "sasl.enabled.mechanisms": "SASL mechanisms that clients may use.",
    "sasl.jaas.config": "SASL settings of a listener and mechanism, in the form of a JAAS file.",
    "sasl.kerberos.kinit.cmd": "Path of the kinit command.",
    "sasl.kerberos.min.time.before.relogin": "Shortest time between two Kerberos logins.",
    "sasl.kerberos.principal.to.local.rules": (
        "Rules that turn a Kerberos principal into a short name, the first that fits."
    ),
    "sasl.kerberos.service.name": "Kerberos name of the Kafka service.",
    "sasl.kerberos.ticket.renew.jitter": "Random part of the time until a Kerberos ticket is renewed.",
    "sasl.kerberos.ticket.renew.window.factor": "Part of a Kerberos ticket's life after which it is renewed.",
    "sasl.login.callback.handler.class": "Class that supplies the SASL login with its credentials.",
    "sasl.login.class": "Class that performs the SASL login.",
    "sasl.login.connect.timeout.ms": "Longest time to connect to the authorization server (OAUTHBEARER).",
    "sasl.login.read.timeout.ms": "Longest time to read from the authorization server (OAUTHBEARER).",
    "sasl.login.refresh.buffer.seconds": (
        "Time before the expiry of a token in which it should already be refreshed (OAUTHBEARER)."
    ),
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
        "Seconds before now from which a client's assertion is valid."
    ),
    "sasl.oauthbearer.assertion.claim.sub": "Subject claim of a client's assertion.",
    "sasl.oauthbearer.assertion.file": "File with a ready assertion of a client.",
    "sasl.oauthbearer.assertion.private.key.file": (
        "File with the private key that signs a client's assertion."
    ),
    "sasl.oauthbearer.assertion.private.key.passphrase": "Password of that private key.",
    "sasl.oauthbearer.assertion.template.file": "File with headers and claims for a client's assertion.",
    "sasl.oauthbearer.client.credentials.client.id": "Client id for the authorization server (OAUTHBEARER).",
    "sasl.oauthbearer.client.credentials.client.secret": (
        "Client secret for the authorization server (OAUTHBEARER)."
    ),
    "sasl.oauthbearer.clock.skew.seconds": (
        "Accepted difference between the clocks of broker and authorization server."
    ),
    "sasl.oauthbearer.expected.audience": "Audiences of which a token must name at least one.",
    "sasl.oauthbearer.expected.issuer": "Issuer that a token must name.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "Time between two refreshes of the keys that verify tokens.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": (
        "Longest pause between two tries to fetch those keys."
    ),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "First pause between two tries to fetch those keys.",
    "sasl.oauthbearer.jwks.endpoint.url": "Address of the keys that verify tokens.",
    "sasl.oauthbearer.jwt.retriever.class": "Class that fetches a token for a client.",
    "sasl.oauthbearer.jwt.validator.class": "Class that checks a token.",
    "sasl.oauthbearer.scope": "Scope that a client asks the authorization server for.",
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
        "Updates of a share partition's state between two snapshots of it."
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
    "share.fetch.purgatory.purge.interval.requests": (
        "Answered share fetches kept before they are cleared away."
    ),
    "socket.connection.setup.timeout.max.ms": (
        "Longest time to wait for a connection, after repeated failures."
    ),
    "socket.connection.setup.timeout.ms": "First time to wait for a connection; it grows with each failure.",
    "socket.listen.backlog.size": "Connections that wait to be accepted.",
    "socket.receive.buffer.bytes": "Receive buffer of sockets; -1 is the system's own.",
    "socket.request.max.bytes": "Largest request that is read.",
    "socket.send.buffer.bytes": "Send buffer of sockets; -1 is the system's own.",
    "ssl.allow.dn.changes": "Accept a new certificate at run time that names another subject.",
    "ssl.allow.san.changes": "Accept a new certificate at run time that lacks names of the old one.",
    "ssl.cipher.suites": "Allowed cipher suites; without any, all that are available.",
    "ssl.client.auth": "Whether clients must show a certificate: required, requested or none.",
    "ssl.enabled.protocols": "TLS versions that connections may use.",
    "ssl.endpoint.identification.algorithm": (
        "How the name of a server is checked against its certificate; empty: not at all."
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
        "Rules that turn the subject of a client's certificate into a user name, the first that fits."
    ),
    "ssl.protocol": "Newest TLS version that this node offers.",
    "ssl.provider": "Security provider of TLS connections.",
    "ssl.secure.random.implementation": "Generator of random numbers for TLS.",
    "ssl.trustmanager.algorithm": "Algorithm of the trust manager.",
    "ssl.truststore.certificates": "Trusted certificates, as PEM text.",
    "ssl.truststore.location": "File with the trusted certificates.",
    "ssl.truststore.password": "Password of the trust store.",
    "ssl.truststore.type": "Format of the trust store: JKS, PKCS12 or PEM.",
    "telemetry.max.bytes": "Most bytes of metrics that a client may push at a time.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "Time between two looks for stale transactions.",
    "transaction.max.timeout.ms": "Longest transaction timeout a producer may ask for.",
    "transaction.partition.verification.enable": "Check that a partition was added to a transaction before writing.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "Time between two looks for unused ids.",
    "transaction.state.log.load.buffer.size": "Bytes read at a time when a coordinator loads transactions.",
    "transaction.state.log.min.isr": "In-sync replicas that __transaction_state needs.",
    "transaction.state.log.num.partitions": "Partitions of __transaction_state; not to be changed later.",
    "transaction.state.log.replication.factor": "Replicas of __transaction_state.",
    "transaction.state.log.segment.bytes": "Size of segments of __transaction_state.",
    "transaction.two.phase.commit.enable": "Let producers hold prepared transactions open (KIP-939).",
    "transactional.id.expiration.ms": "How long an unused transactional id is remembered.",
    "unclean.leader.election.enable": "Let a replica that is out of sync lead, losing records.",
}

"""The keys of the sink (io.confluent.connect.s3.S3SinkConnectorConfig, and some of our own)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    invalid_value,
)
from kcli.connectors.keys import KeyGroup, names, number, text
from kcli.connectors.objects.formats import FormatSettings, format_named
from kcli.connectors.objects.names import Layout
from kcli.connectors.objects.partitioners import (
    DAILY_PATH,
    DAY_MS,
    HOUR_MS,
    HOURLY_PATH,
    Directory,
    Extract,
    FieldPartitioner,
    TimePartitioner,
    default_directory,
    extractor,
    time_format,
)
from kcli.connectors.objects.projection import BACKWARD, FORWARD, FULL, NONE
from kcli.connectors.objects.rotation import RotationSettings
from kcli.connectors.objects.store import PART_BYTES_MIN
from kcli.connectors.objects.store_keys import (
    FORMAT,
    compression_keys,
    format_keys,
    format_settings,
    store_keys,
)
from kcli.model.java_dates.zone_ids import time_zone

IGNORE, FAIL = "ignore", "fail"
PATH_FORMAT, DURATION, ZONE, FIELDS = (
    "path.format",
    "partition.duration.ms",
    "timezone",
    "partition.field.name",
)
_STRING, _INT, _LONG = ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_PARTITIONERS = ("default", "field", "timebased", "hourly", "daily")
_EXTRACTORS = ("wallclock", "record", "recordfield")
_SUFFIXES = {"partitioner.class": "partitioner", "timestamp.extractor": "timestampextractor"}


@dataclass(frozen=True, slots=True)
class ShortName:
    """One of some names, or the class of Confluent's connectors that has the name."""

    valid: tuple[str, ...]

    def check(self, key: str, value: ConfigValue) -> None:
        if isinstance(value, str) and short_name(key, value) not in self.valid:
            raise invalid_value(key, value, f"Expected one of: {self}")

    def __str__(self) -> str:
        return f"{', '.join(self.valid)}, or the class of Confluent's storage connectors"


def short_name(key: str, value: str) -> str:
    return value.rpartition(".")[2].lower().removesuffix(_SUFFIXES[key])


@dataclass(frozen=True, slots=True)
class _ZoneName:
    def check(self, key: str, value: ConfigValue) -> None:
        if isinstance(value, str) and value and time_zone(value) is None:
            raise invalid_value(key, value, "Unknown time zone")


@dataclass(frozen=True, slots=True)
class _English:
    """Only English is possible, because names of days and months in paths come from a table of English names."""

    def check(self, key: str, value: ConfigValue) -> None:
        if isinstance(value, str) and value and value.replace("_", "-").partition("-")[0].lower() != "en":
            raise invalid_value(
                key, value, "The names in a path format can only be English, such as en or en-US"
            )


@dataclass(frozen=True, slots=True)
class Only:
    """The one value of a key whose other values kcli does not have."""

    value: str

    def check(self, key: str, value: ConfigValue) -> None:
        if value is not None and str(value).lower() != self.value:
            raise invalid_value(key, value, f"kcli has only the value {self.value or 'of an empty text'}")


def _rotation_keys() -> list[ConfigKey]:
    group = KeyGroup("Rotation")
    group.add(
        ConfigKey("flush.size", _INT, None, Range(low=1), _HIGH,
                  "The number of records of a partition after which its objects are stored.", required=True),
        "Flush Size",
    )  # fmt: skip
    group.add(
        ConfigKey("rotate.interval.ms", _LONG, "-1", None, _HIGH,
                  "The longest span of time in an object, by timestamp.extractor. -1 stands for any."),
        "Rotate Interval (ms)",
    )  # fmt: skip
    group.add(
        ConfigKey("rotate.schedule.interval.ms", _LONG, "-1", None, _MEDIUM,
                  "The time between two rotations by the clock, counted from midnight. -1 stands for none. With"
                  " it, a restart may repeat records."),
        "Rotate Schedule Interval (ms)",
    )  # fmt: skip
    group.add(
        ConfigKey("schema.compatibility", _STRING, NONE, OneOf((NONE, BACKWARD, FORWARD, FULL)), _HIGH,
                  "Which schemas fit an open object. With NONE, each other schema begins a new object."),
        "Schema Compatibility",
    )  # fmt: skip
    group.add(
        ConfigKey("behavior.on.null.values", _STRING, FAIL, OneOf((IGNORE, FAIL)), _LOW,
                  "Whether a record without a value is left out or is an error."),
        "Behavior for null-valued records",
    )  # fmt: skip
    group.add(
        ConfigKey("s3.part.retries", _INT, "3", Range(low=0), _MEDIUM,
                  "How often records are written again after an error of the store."),
        "Retries",
    )  # fmt: skip
    group.add(
        ConfigKey("s3.retry.backoff.ms", _LONG, "200", Range(0, 60_000), _LOW,
                  "The pause before the first retry. It doubles with each retry."),
        "Retry Backoff (ms)",
    )  # fmt: skip
    return group.keys


def _partitioner_keys() -> list[ConfigKey]:
    group = KeyGroup("Partitioner")
    for name, default, valid, doc, display in (
        ("partitioner.class", "default", _PARTITIONERS, "Chooses the directory of a record", "Partitioner Class"),
        ("timestamp.extractor", "wallclock", _EXTRACTORS, "Where the time of a record comes from",
         "Timestamp Extractor"),
    ):  # fmt: skip
        validator = ShortName(valid)
        group.add(ConfigKey(name, _STRING, default, validator, _HIGH, f"{doc}: {validator}."), display)
    group.add(
        ConfigKey(FIELDS, ConfigType.LIST, "", None, _MEDIUM, "The fields whose values are the directory."),
        "Partition Field Name",
    )  # fmt: skip
    group.add(
        ConfigKey(PATH_FORMAT, _STRING, "", None, _MEDIUM,
                  "The directory of a time with the partitioner timebased, such as 'year'=YYYY/'month'=MM."),
        "Path Format",
    )  # fmt: skip
    group.add(
        ConfigKey(DURATION, _LONG, "-1", None, _MEDIUM,
                  "The span of time of a directory with the partitioner timebased."),
        "Partition Duration (ms)",
    )  # fmt: skip
    group.add(
        ConfigKey("locale", _STRING, "", _English(), _MEDIUM, "The language of names in paths."), "Locale"
    )
    group.add(
        ConfigKey(ZONE, _STRING, "", _ZoneName(), _MEDIUM, "The time zone of paths. Empty stands for UTC."),
        "Timezone",
    )  # fmt: skip
    group.add(
        ConfigKey("timestamp.field", _STRING, "timestamp", None, _MEDIUM,
                  "The field with the time of a record, with the extractor recordfield."),
        "Record Field for Timestamp Extractor",
    )  # fmt: skip
    return group.keys


def _name_keys() -> list[ConfigKey]:
    group = KeyGroup("Names")
    group.add(
        ConfigKey("topics.dir", _STRING, "topics", None, _HIGH, "The first directory of names."), "Topics dir"
    )
    for name, default, doc in (
        ("directory.delim", "/", "The text between directories."),
        ("file.delim", "+", "The text between topic, partition and offset."),
    ):
        group.add(ConfigKey(name, _STRING, default, NonEmpty(), _MEDIUM, doc), name)
    group.add(
        ConfigKey("filename.offset.zero.pad.width", _INT, "10", Range(0, 19), _LOW, "The digits of an offset."),
        "Filename Offset Zero Pad Width",
    )  # fmt: skip
    group.add(
        ConfigKey("format.bytearray.extension", _STRING, ".bin", NonEmpty(), _LOW,
                  "The extension of objects of the format bytes."),
        "Extension of bytes",
    )  # fmt: skip
    return group.keys


def _s3_keys() -> list[ConfigKey]:
    group = KeyGroup("S3")
    group.add(
        ConfigKey("s3.part.size", _INT, "26214400", Range(low=PART_BYTES_MIN), _HIGH,
                  "The bytes of a part of a large object. A smaller object is in memory until it is stored."),
        "S3 Part Size",
    )  # fmt: skip
    group.add(
        ConfigKey("s3.ssea.name", _STRING, "", OneOf(("", "AES256", "aws:kms")), _LOW,
                  "The encryption by the server."),
        "S3 Server Side Encryption Algorithm",
    )  # fmt: skip
    group.add(
        ConfigKey("s3.sse.kms.key.id", _STRING, "", None, _LOW, "The key of aws:kms."), "S3 encryption key"
    )
    group.add(
        ConfigKey("s3.acl.canned", _STRING, "", None, _LOW, "The canned ACL of new objects."), "S3 Canned ACL"
    )
    return group.keys


def _keys_of_other_values() -> list[ConfigKey]:
    """Keys of Confluent's connector that have one possible value here, so that no other value is lost in silence."""
    group = KeyGroup("Not in kcli")
    for name, value in (
        ("storage.class", "io.confluent.connect.s3.storage.s3storage"),
        ("store.kafka.keys", "false"),
        ("store.kafka.headers", "false"),
        ("s3.object.tagging", "false"),
        ("s3.wan.mode", "false"),
        ("s3.sse.customer.key", ""),
        ("s3.proxy.url", ""),
        ("s3.credentials.provider.class", "com.amazonaws.auth.defaultawscredentialsproviderchain"),
    ):
        key = ConfigKey(
            name, _STRING, None, Only(value), _LOW, f"kcli has only the value {value or 'empty'}."
        )
        group.add(key, name)
    return group.keys


SINK_KEYS = ConfigDef(
    [
        *store_keys(),
        *format_keys(None),
        *_rotation_keys(),
        *_partitioner_keys(),
        *_name_keys(),
        *compression_keys(),
        *_s3_keys(),
        *_keys_of_other_values(),
    ]
)


@dataclass(frozen=True, slots=True)
class SinkSettings:
    format: FormatSettings
    layout: Layout
    rotation: RotationSettings
    directory: Directory
    extract: Extract
    uses_times: bool
    """Whether the time of a record decides about its directory or about rotations."""
    compatibility: str
    behavior_on_null: str
    part_bytes: int
    upload_options: Mapping[str, object]
    retries: int
    backoff_ms: int

    @classmethod
    def of(cls, config: Mapping[str, str]) -> SinkSettings:
        """Parses a configuration. Raises ConfigError."""
        values = SINK_KEYS.parse(config)
        for errors in partitioner_errors(values).values():
            raise ConfigError(errors[0])
        kind = format_named(text(values, FORMAT))
        assert kind is not None, "the validator has checked it"
        partitioner = _short(values, "partitioner.class")
        extracted = _short(values, "timestamp.extractor")
        is_timed = partitioner in ("timebased", "hourly", "daily")
        interval_ms = number(values, "rotate.interval.ms")
        return cls(
            format=format_settings(values, kind),
            layout=Layout(
                text(values, "topics.dir"),
                text(values, "directory.delim"),
                text(values, "file.delim"),
                number(values, "filename.offset.zero.pad.width"),
            ),
            rotation=RotationSettings(
                flush_size=number(values, "flush.size"),
                interval_ms=interval_ms,
                schedule_ms=number(values, "rotate.schedule.interval.ms"),
                zone=_zone(values),
                ends_with_directory=is_timed,
                uses_clock=extracted == "wallclock",
            ),
            directory=_directory(values, partitioner),
            extract=extractor(extracted, text(values, "timestamp.field")),
            uses_times=is_timed or interval_ms > 0,
            compatibility=text(values, "schema.compatibility"),
            behavior_on_null=text(values, "behavior.on.null.values"),
            part_bytes=number(values, "s3.part.size"),
            upload_options=_upload_options(values),
            retries=number(values, "s3.part.retries"),
            backoff_ms=number(values, "s3.retry.backoff.ms"),
        )


def partitioner_errors(values: Mapping[str, ConfigValue]) -> dict[str, Sequence[str]]:
    """The errors of keys that the partitioner needs."""
    partitioner = _short(values, "partitioner.class")
    if partitioner == "field" and not names(values, FIELDS):
        return {FIELDS: [f"Set {FIELDS} for the partitioner field"]}
    if partitioner != "timebased":
        return {}
    errors: dict[str, Sequence[str]] = {}
    path = text(values, PATH_FORMAT)
    if number(values, DURATION) <= 0:
        errors[DURATION] = [f"Set {DURATION} to a positive number for the partitioner timebased"]
    try:
        time_format(path, _zone(values))
    except ValueError as error:
        errors[PATH_FORMAT] = [f"Invalid path format {path}: {error}"]
    if not path:
        errors[PATH_FORMAT] = [f"Set {PATH_FORMAT} for the partitioner timebased"]
    return errors


def _short(values: Mapping[str, ConfigValue], key: str) -> str:
    return short_name(key, text(values, key))


def _zone(values: Mapping[str, ConfigValue]) -> tzinfo:
    zone = time_zone(text(values, ZONE) or "UTC")
    assert zone is not None, "the validator has checked it"
    return zone


def _directory(values: Mapping[str, ConfigValue], partitioner: str) -> Directory:
    delimiter = text(values, "directory.delim")
    match partitioner:
        case "default":
            return default_directory
        case "field":
            return FieldPartitioner(names(values, FIELDS), delimiter)
        case "hourly":
            return TimePartitioner(HOURLY_PATH, HOUR_MS, _zone(values), delimiter)
        case "daily":
            return TimePartitioner(DAILY_PATH, DAY_MS, _zone(values), delimiter)
        case _:
            return TimePartitioner(
                text(values, PATH_FORMAT), number(values, DURATION), _zone(values), delimiter
            )


def _upload_options(values: Mapping[str, ConfigValue]) -> dict[str, object]:
    """The arguments of requests that make objects in S3."""
    options = {
        "ServerSideEncryption": values["s3.ssea.name"],
        "SSEKMSKeyId": values["s3.sse.kms.key.id"],
        "acl": values["s3.acl.canned"],
    }
    return {name: value for name, value in options.items() if value}

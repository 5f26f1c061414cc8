"""The classes of plugins that are part of kcli, by the group of entry points that other packages use for theirs.

kcli declares its own plugins here, because a worker then starts without reading the metadata of kcli's distribution,
and a checkout works without an installation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SOURCE = "kcli.connect.source"
SINK = "kcli.connect.sink"
CONVERTER = "kcli.connect.converter"
HEADER_CONVERTER = "kcli.connect.header_converter"
TRANSFORM = "kcli.connect.transform"
PREDICATE = "kcli.connect.predicate"

_CONVERTERS = (
    "kcli.formats.connect.primitives:BooleanConverter",
    "kcli.formats.connect.primitives:ByteArrayConverter",
    "kcli.formats.connect.primitives:DoubleConverter",
    "kcli.formats.connect.primitives:FloatConverter",
    "kcli.formats.connect.primitives:IntegerConverter",
    "kcli.formats.connect.json_converter:JsonConverter",
    "kcli.formats.connect.primitives:LongConverter",
    "kcli.formats.connect.primitives:ShortConverter",
    "kcli.formats.connect.string_converter:StringConverter",
)
"""Converters that convert keys, values and headers."""

_REGISTRY_CONVERTERS = (
    "kcli.formats.connect.avro.converter:AvroConverter",
    "kcli.formats.connect.json_typed.converter:JsonSchemaConverter",
    "kcli.formats.connect.protobuf.converter:ProtobufConverter",
)
"""Converters of keys and values whose schemas are in a registry."""

BUILT_IN: Mapping[str, Sequence[str]] = {
    SOURCE: (
        "kcli.connectors.cdc.source:PostgresConnector",
        "kcli.connectors.file.connectors:FileStreamSourceConnector",
        "kcli.connectors.http.source:HttpSourceConnector",
        "kcli.connectors.jdbc.source:JdbcSourceConnector",
        "kcli.connectors.mirror.checkpoint:MirrorCheckpointConnector",
        "kcli.connectors.mirror.heartbeat:MirrorHeartbeatConnector",
        "kcli.connectors.mirror.source:MirrorSourceConnector",
        "kcli.connectors.objects.source:ObjectSourceConnector",
        "kcli.spark.connectors.classes:SparkIngest",
        "kcli.spark.connectors.classes:SparkJob",
    ),
    SINK: (
        "kcli.connectors.file.connectors:FileStreamSinkConnector",
        "kcli.connectors.http.sink:HttpSinkConnector",
        "kcli.connectors.jdbc.sink:JdbcSinkConnector",
        "kcli.connectors.objects.sink:ObjectSinkConnector",
        "kcli.connectors.search.sink:SearchSinkConnector",
        "kcli.spark.connectors.classes:SparkExport",
        "kcli.spark.connectors.classes:SparkTransform",
    ),
    CONVERTER: (*_CONVERTERS, *_REGISTRY_CONVERTERS),
    HEADER_CONVERTER: (*_CONVERTERS, "kcli.formats.connect.simple_header:SimpleHeaderConverter"),
    TRANSFORM: (
        "kcli.connectors.transforms.cast:CastKey",
        "kcli.connectors.transforms.cast:CastValue",
        "kcli.connectors.transforms.headers:DropHeaders",
        "kcli.connectors.transforms.extract_field:ExtractFieldKey",
        "kcli.connectors.transforms.extract_field:ExtractFieldValue",
        "kcli.connectors.transforms.logical_tables:ByLogicalTableRouter",
        "kcli.connectors.transforms.new_record_state:ExtractNewRecordState",
        "kcli.connectors.transforms.filter:Filter",
        "kcli.connectors.transforms.flatten:FlattenKey",
        "kcli.connectors.transforms.flatten:FlattenValue",
        "kcli.connectors.transforms.headers:HeaderFromKey",
        "kcli.connectors.transforms.headers:HeaderFromValue",
        "kcli.connectors.transforms.extract_field:HoistFieldKey",
        "kcli.connectors.transforms.extract_field:HoistFieldValue",
        "kcli.connectors.transforms.insert_field:InsertFieldKey",
        "kcli.connectors.transforms.insert_field:InsertFieldValue",
        "kcli.connectors.transforms.headers:InsertHeader",
        "kcli.connectors.transforms.mask_field:MaskFieldKey",
        "kcli.connectors.transforms.mask_field:MaskFieldValue",
        "kcli.connectors.transforms.routers:RegexRouter",
        "kcli.connectors.transforms.replace_field:ReplaceFieldKey",
        "kcli.connectors.transforms.replace_field:ReplaceFieldValue",
        "kcli.connectors.transforms.schema_metadata:SetSchemaMetadataKey",
        "kcli.connectors.transforms.schema_metadata:SetSchemaMetadataValue",
        "kcli.connectors.transforms.timestamp_converter:TimestampConverterKey",
        "kcli.connectors.transforms.timestamp_converter:TimestampConverterValue",
        "kcli.connectors.transforms.routers:TimestampRouter",
        "kcli.connectors.transforms.value_to_key:ValueToKey",
    ),
    PREDICATE: (
        "kcli.connectors.transforms.predicates:HasHeaderKey",
        "kcli.connectors.transforms.predicates:RecordIsTombstone",
        "kcli.connectors.transforms.predicates:TopicNameMatches",
    ),
}
"""`module:Class` of each plugin. The names of Java's classes are attributes of the classes."""

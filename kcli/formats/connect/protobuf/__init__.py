"""Values of Connect's data model in Protobuf, as Confluent's ProtobufConverter maps them."""

"""A Protobuf schema with a field of each kind that the value codecs treat apart."""

from __future__ import annotations


def descriptors() -> bytes:
    """Returns a descriptor set with the messages `shop.Order` and `shop.Loop`, which holds itself."""
    from google.protobuf import descriptor_pb2, timestamp_pb2

    stamps = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamps)
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    file.dependency.append(stamps.name)
    field = descriptor_pb2.FieldDescriptorProto
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="A", number=0)
    kind.value.add(name="B", number=1)
    message = file.message_type.add(name="Order")
    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    message.field.add(name="id", number=1, type=field.TYPE_UINT64, label=one)
    message.field.add(name="raw", number=2, type=field.TYPE_BYTES, label=one)
    message.field.add(name="kind", number=3, type=field.TYPE_ENUM, type_name=".shop.Kind", label=one)
    stamp = ".google.protobuf.Timestamp"
    message.field.add(name="at", number=4, type=field.TYPE_MESSAGE, type_name=stamp, label=one)
    message.field.add(name="tags", number=5, type=field.TYPE_STRING, label=many)
    entry = message.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=one)
    entry.field.add(name="value", number=2, type=field.TYPE_INT32, label=one)
    counts = ".shop.Order.CountsEntry"
    message.field.add(name="counts", number=6, type=field.TYPE_MESSAGE, type_name=counts, label=many)
    loop = file.message_type.add(name="Loop")
    loop.field.add(name="next", number=1, type=field.TYPE_MESSAGE, type_name=".shop.Loop", label=one)
    return bytes(descriptor_pb2.FileDescriptorSet(file=[stamps, file]).SerializeToString())

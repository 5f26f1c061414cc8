"""The schema language Protobuf: .proto texts, descriptors, compatibility, values and columns (adr/0032)."""

"""JSON Schema: parsing, normal form, compatibility, and the codec of JSON values."""

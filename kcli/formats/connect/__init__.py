"""Connect's data model: schemas, values, and the converters between them and bytes."""

"""Records of topics as rows, and rows as records: value formats, tables, records that do not parse."""

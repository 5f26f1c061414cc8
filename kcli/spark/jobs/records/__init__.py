"""Converts records to rows and rows to records: value formats, topics as tables, records that do not parse."""

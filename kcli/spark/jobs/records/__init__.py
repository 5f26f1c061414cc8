"""Turns records into rows and rows into records: value formats, topics as tables, records that do not parse."""

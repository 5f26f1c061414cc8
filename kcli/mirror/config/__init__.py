"""The grammar of mm2.properties, without sockets, clocks and files."""

"""The language of filters over records, such as `value.order.amount > 10 && headers["x"] == "y"`.

    or     = and { ("||" | "or") and }
    and    = not { ("&&" | "and") not }
    not    = ("!" | "not") not | comparison
    comparison = operand [ operator operand ]
    operand    = "(" or ")" | literal | path | "size" "(" path ")"
    path   = subject { "." name | "[" string "]" | "[" integer "]" | "[*]" }

The subjects are key, value, headers, offset, partition and timestamp (milliseconds, or an ISO date in a string). The
operators are == != < <= > >= contains startsWith endsWith matches. `matches` takes a regular expression of RE2, because
RE2 needs only linear time. A path without steps is the text of the key or value, and a path with steps reads its JSON,
Avro or Protobuf. A missing part is null. `[*]` stands for all elements, and a comparison is true if it is true for one
element.

A filter is compiled once to nested functions, and no part of its text is run as Python. The length and the depth of a
filter are limited. `Work` limits the bytes that the evaluation on one record may read. So every evaluation ends.
"""

"""Java's regular expressions and their replacement texts (java.util.regex), with Python's `re` and with RE2."""

from __future__ import annotations

from kcli.model.java_regex.translator import JavaRegexError, compile_java, translate

__all__ = ["JavaRegexError", "compile_java", "translate"]

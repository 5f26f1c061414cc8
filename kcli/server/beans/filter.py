"""The filter of metrics: `metrics.jmx.include` and `metrics.jmx.exclude`, regular expressions of whole object names.

A bean is shown if its object name matches `include` and does not match `exclude`. Both keys are dynamic. Operators use
these keys if a cluster has too many metrics.
"""

from __future__ import annotations

from kcli.config.broker import BrokerConfig
from kcli.server.beans.bean import Bean

INCLUDE_KEY, EXCLUDE_KEY = "metrics.jmx.include", "metrics.jmx.exclude"
_EVERY = ".*"


class BeanFilter:
    """The filter for one configuration. The keys have been checked, so they are valid expressions."""

    def __init__(self, config: BrokerConfig) -> None:
        include, exclude = config.text(INCLUDE_KEY), config.text(EXCLUDE_KEY)
        from kcli.model.java_regex import compile_java

        self._include = None if include in ("", _EVERY) else compile_java(include)
        self._exclude = compile_java(exclude) if exclude else None

    @property
    def shows_all(self) -> bool:
        return self._include is None and self._exclude is None

    def shows(self, bean: Bean) -> bool:
        if self.shows_all:
            return True
        name = bean.object_name
        if self._include is not None and self._include.fullmatch(name) is None:
            return False
        return self._exclude is None or self._exclude.fullmatch(name) is None

"""Filter: drops records. A predicate selects the records to drop."""

from __future__ import annotations

from kcli.config.definition import ConfigDef
from kcli.connectors.records import R
from kcli.connectors.transforms.shared import PACKAGE, KafkaTransformation


class Filter(KafkaTransformation[R]):
    """Drops every record for which its predicate is true."""

    java_classes = (f"{PACKAGE}Filter",)
    config_def = ConfigDef(())

    def apply(self, record: R) -> None:
        return None

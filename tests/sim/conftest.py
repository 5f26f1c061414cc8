"""Which stories of a simulated cluster are run: `--sim-seeds 200`, or one of them again, `--sim-seed 48`."""

from __future__ import annotations

import os
from types import ModuleType

import pytest

DEFAULT_SEEDS = 12


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sim_seed" in metafunc.fixturenames:
        metafunc.parametrize("sim_seed", _seeds(metafunc.config, DEFAULT_SEEDS))
    if "replication_seed" in metafunc.fixturenames:
        metafunc.parametrize("replication_seed", _stories(metafunc.config, metafunc.module))


def _stories(config: pytest.Config, module: ModuleType) -> list[int]:
    """The rich and the short stories, or the seeds of the command line. In a larger run, the rich stories take the
    places of the last other stories."""
    usual = [*module.RICH, *module.SHORT]
    seeds = _seeds(config, 0) or usual
    return seeds if len(seeds) == 1 else sorted(list(dict.fromkeys([*module.RICH, *seeds]))[: len(seeds)])


def _seeds(config: pytest.Config, default: int) -> list[int]:
    one = config.getoption("--sim-seed", default=None)
    if one is None and "KCLI_SIM_SEED" in os.environ:
        one = int(os.environ["KCLI_SIM_SEED"])
    if one is not None:
        return [one]
    count = config.getoption("--sim-seeds", default=None)
    return list(range(default if count is None else count))

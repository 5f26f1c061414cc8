"""Which stories of a simulated cluster are run: `--sim-seeds 200`, or one of them again, `--sim-seed 48`."""

from __future__ import annotations

import os

import pytest

DEFAULT_SEEDS = 20
REPLICATION_SEEDS = 40


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sim_seed" in metafunc.fixturenames:
        metafunc.parametrize("sim_seed", _seeds(metafunc.config, DEFAULT_SEEDS))
    if "replication_seed" in metafunc.fixturenames:
        seeds = _seeds(metafunc.config, REPLICATION_SEEDS)
        # The last seeds give way to the rich stories, so the number of stories stays the same.
        rich = metafunc.module.RICH if len(seeds) > 1 else ()
        seeds = sorted(list(dict.fromkeys([*rich, *seeds]))[: len(seeds)])
        metafunc.parametrize("replication_seed", seeds)


def _seeds(config: pytest.Config, default: int) -> list[int]:
    one = config.getoption("--sim-seed", default=None)
    if one is None and "KCLI_SIM_SEED" in os.environ:
        one = int(os.environ["KCLI_SIM_SEED"])
    if one is not None:
        return [one]
    count = config.getoption("--sim-seeds", default=None)
    return list(range(default if count is None else count))

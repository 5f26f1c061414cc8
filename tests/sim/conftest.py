"""The seeds of the simulation: `--sim-seeds 200` for more of them, or one of them again, `--sim-seed 48`."""

from __future__ import annotations

import itertools
import os
from types import ModuleType

import pytest

from simulation.world.settings import Kind, kind_of

DEFAULT_SEEDS = 12


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sim_seed" in metafunc.fixturenames:
        metafunc.parametrize("sim_seed", _seeds(metafunc.config, DEFAULT_SEEDS))
    if "story_seed" in metafunc.fixturenames:
        metafunc.parametrize("story_seed", _stories(metafunc.config, metafunc.module))


def _stories(config: pytest.Config, module: ModuleType) -> list[int]:
    """The rich and the short stories, or the seed of the command line. In a larger run, the first seeds of each kind
    take the places of the short stories."""
    seeds = _seeds(config, 0)
    if not seeds:
        return sorted([*module.RICH, *module.ONE_NODE, *module.CONTROLLERS, *module.SHORT])
    if len(seeds) == 1:
        return seeds
    first = [
        seed
        for kind in Kind
        for seed in itertools.islice(
            (each for each in itertools.count() if kind_of(each) is kind), len(seeds)
        )
    ]
    return sorted(dict.fromkeys([*module.RICH, *first]))


def _seeds(config: pytest.Config, default: int) -> list[int]:
    one = config.getoption("--sim-seed", default=None)
    if one is None and "KCLI_SIM_SEED" in os.environ:
        one = int(os.environ["KCLI_SIM_SEED"])
    if one is not None:
        return [one]
    count = config.getoption("--sim-seeds", default=None)
    return list(range(default if count is None else count))

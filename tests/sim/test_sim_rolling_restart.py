"""Rolling restarts of a cluster of three controllers and three brokers, on virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from kcli.client.connection import Connection
from kcli.errors import ErrorCode
from kcli.model.addresses import Address
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.wire.api import ApiKey
from kcli.testing.actors.clients import eventually
from kcli.testing.sim.cluster import BOTH, BROKER_PORT, SimCluster, SimNode
from kcli.testing.sim.loop import SimLoop, simulate

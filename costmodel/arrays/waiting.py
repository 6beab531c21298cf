"""Cycles that work waits for tiles in every mapping: known beforehand, as latencies are."""

from __future__ import annotations

import math

import numpy as np

from costmodel.arrays.projections import PART_OF_INPUT
from costmodel.arrays.tables import NestTables


def with_least_waiting(tables: NestTables) -> NestTables:
    """Tables whose `waiting` holds what every mapping waits for tiles at least (lemma 12f).

    A tensor that a level always keeps, and one outside it, starts up once at least. The words of an
    output that leave all instances are at least those of the tensor; no port counts them.
    """
    machine, least = tables.machine, 0.0
    if not machine.single.any():
        return tables
    always = machine.always_kept | np.where(tables.keep_column < 0, ~machine.never_kept, 0)
    for level, t in zip(*np.nonzero(machine.single), strict=True):
        if level == 0 or not always[level] >> t & 1 or not (always[:level] >> t & 1).any():
            continue
        least += float(machine.startup[level, t])
        if tables.part_kind[t] != PART_OF_INPUT:
            out = min(float(tables.bandwidth[level, 0]), float(machine.shared[level]))
            words = -(-int(tables.words[t]) // int(machine.mesh[level, 0]))
            least += float(machine.words[level, t]) * words / out
    # The model rounds up what its floating-point sum comes to, which may be below the true one.
    known = math.ceil(least * (1 - 1e-9))
    waiting = machine.waiting + known
    return tables._replace(machine=machine._replace(waiting=waiting, waited=known))

"""Cluster mappings as records: JSON objects read into batches, written back, scored in bulk.

A record has `l3_tile`, `maestro_type` (CONV, DSCONV), `stride`, `style` (generic, qr), `order`,
`t1`, `par`, `platform` (at least `noc_bw`), `hop_latency`, and whatever else; of a depthwise
layer, K may be left out of `order` and `t1`. `platform` may limit `num_pes`, `l1` and `l2`
(elements); only fidelity `corrected` looks at them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from costmodel.costs import STATUS_OK
from costmodel.maestro.counts import TENSORS
from costmodel.maestro.mappings import DIMENSIONS, NONE, PARALLEL, TILED, UNLIMITED, ClusterMappings
from costmodel.maestro.model import MaestroCosts, MaestroModel, explain
from mapspace.errors import ConfigError

Record = dict[str, Any]

_TYPES = {"CONV": False, "DSCONV": True}
_STYLES = {"generic": False, "qr": True}
_PLATFORM = ("noc_bw", "num_pes", "l1", "l2")
_UNLIMITED = dict.fromkeys(("num_pes", "l1", "l2"), UNLIMITED)
_PLATFORM_EXTRA = ("name", "clock_mhz")
_COUNTERS = {
    "l2_write": "l2_write",
    "l2_read": "l2_read",
    "l1_write": "l1_write",
    "l1_read": "l1_read",
    "l2_req": "l2_required",
    "l1_req": "l1_required",
}


def mappings_from_records(records: Sequence[Record], *, strict: bool = False) -> ClusterMappings:
    """One batch of all records, in order.

    Args:
        records: cluster-mapping records.
        strict: refuse those whose tiles do not divide.

    Raises:
        ConfigError: a record cannot be read: `record N: why`, counted from 0.
    """
    rows = []
    for index, record in enumerate(records):
        try:
            rows.append(_row(record))
        except ConfigError as error:
            raise ConfigError(f"record {index}: {error}") from None
    table = np.array(rows, np.int64).reshape(len(rows), 28)
    try:
        return ClusterMappings(
            bounds=table[:, 0:6],
            order=table[:, 6:10],
            tile=table[:, 10:14],
            parallel_dims=table[:, 14:17],
            parallel_factors=table[:, 17:20],
            stride=table[:, 20],
            depthwise=table[:, 21] == 1,
            row_stationary=table[:, 22] == 1,
            noc_bandwidth=table[:, 23],
            processing_elements=table[:, 24],
            l1_capacity=table[:, 25],
            l2_capacity=table[:, 26],
            hop_latency=table[:, 27],
            strict=strict,
        )
    except ConfigError as error:
        raise ConfigError(re.sub("^row ", "record ", str(error))) from None


def records_from_mappings(mappings: ClusterMappings) -> list[Record]:
    """Each mapping as a record, read back by `mappings_from_records`."""
    records = []
    for row in range(len(mappings)):
        m = mappings
        depthwise = bool(m.depthwise[row])
        bounds = m.bounds[row].tolist()
        named = [d for d in TILED if not (depthwise and d == "K")]
        order = [TILED[d] for d in m.order[row].tolist()]
        parallel = zip(m.parallel_dims[row].tolist(), m.parallel_factors[row].tolist(), strict=True)
        platform: Record = {"noc_bw": int(m.noc_bandwidth[row])}
        for key, limit in (
            ("num_pes", m.processing_elements),
            ("l1", m.l1_capacity),
            ("l2", m.l2_capacity),
        ):
            if limit[row] != UNLIMITED:
                platform[key] = int(limit[row])
        records.append(
            {
                "maestro_type": "DSCONV" if depthwise else "CONV",
                "l3_tile": dict(zip(DIMENSIONS, bounds, strict=True)),
                "stride": int(m.stride[row]),
                "platform": platform,
                "style": "qr" if m.row_stationary[row] else "generic",
                "order": [d for d in order if d in named],
                "t1": {d: int(m.tile[row, TILED.index(d)]) for d in named},
                "par": [[TILED[d], factor] for d, factor in parallel if d != NONE],
                "hop_latency": int(m.hop_latency[row]),
            }
        )
    return records


def score_records(records: Sequence[Record], model: MaestroModel) -> list[Record]:
    """Evaluates records in one batch.

    Args:
        records: cluster-mapping records.
        model: the cost model.

    Returns:
        The records in order, each with `result` in the keys of MAESTRO's own (or, where the mapping
        is infeasible or fidelity `maestro` does not hold, `result.status` saying why).

    Raises:
        ConfigError: a record cannot be read; the message starts with its index, from 0.
    """
    mappings = mappings_from_records(records)
    costs = model.cost(mappings)
    return [
        record | {"result": _result(mappings, costs, row)} for row, record in enumerate(records)
    ]


def _result(mappings: ClusterMappings, costs: MaestroCosts, row: int) -> Record:
    if costs.status[row] != STATUS_OK:
        return {"status": explain(mappings, costs, row)}
    counts, spent = costs.counts, costs.energies
    result: Record = {
        "runtime": int(counts.runtime_cycles[row]),
        "macs": int(counts.macs[row]),
        "tensors": {
            tensor: {key: int(getattr(counts, name)[row, t]) for key, name in _COUNTERS.items()}
            for t, tensor in enumerate(TENSORS)
        },
        "l2_req_total": int(counts.l2_required[row].sum()),
        "l1_req_total": int(counts.l1_required[row].sum()),
        "energy_l2_write": float(spent.l2_write[row]),
        "energy_l2_read": float(spent.l2_read[row]),
        "energy_l1_write": float(spent.l1_write[row]),
        "energy_l1_read": float(spent.l1_read[row]),
        "energy_mac": float(spent.mac[row]),
        "energy_total": float(spent.total[row]),
        "throughput_macs_per_cycle": float(costs.throughput[row]),
        "avg_active_pes": int(mappings.elements[row]),
    }
    if counts.delays is None:
        del result["avg_active_pes"]  # with remainders, that would be those ever active
        return result
    delays = counts.delays
    return result | {
        "delay_ingress": delays.ingress_cycles[row].tolist(),
        "delay_egress": [int(delays.egress_cycles[row])] * 3,
        "delay_compute": [int(delays.compute_cycles[row])] * 3,
    }


def _row(record: Any) -> list[int]:
    """One record as a row of the table that `mappings_from_records` cuts up."""
    if not isinstance(record, dict):
        raise ConfigError(f"expected an object, got {type(record).__name__}.")
    depthwise = _choice(record, "maestro_type", _TYPES)
    row_stationary = _choice(record, "style", _STYLES)
    bounds = _sizes(record, "l3_tile", DIMENSIONS, {})
    tile = _sizes(record, "t1", TILED, {"K": 1} if depthwise else {})
    platform = _sizes(record, "platform", _PLATFORM, _UNLIMITED, _PLATFORM_EXTRA)
    order = record.get("order")
    if isinstance(order, list) and depthwise and "K" not in order:
        order = ["K", *order]
    if not isinstance(order, list) or sorted(map(str, order)) != sorted(TILED):
        raise ConfigError(f"order: expected each of {', '.join(TILED)} once, got {order!r}.")
    dims, factors = _parallel(record.get("par"))
    return [
        *bounds,
        *(TILED.index(d) for d in order),
        *tile,
        *dims,
        *factors,
        _size(record, "stride", ""),
        depthwise,
        row_stationary,
        *platform,
        _size(record, "hop_latency", ""),
    ]


def _choice(record: Record, key: str, known: Mapping[str, bool]) -> bool:
    value = record.get(key)
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"{key}: expected one of {', '.join(known)}, got {value!r}.")
    return known[value]


def _sizes(
    record: Record,
    part: str,
    names: tuple[str, ...],
    defaults: Mapping[str, int],
    others: tuple[str, ...] = (),
) -> list[int]:
    """Whole numbers of one object in the record, by name; any other name is refused."""
    content = record.get(part)
    if not isinstance(content, dict):
        raise ConfigError(f"{part}: expected an object, got {content!r}.")
    unknown = sorted(str(key) for key in content if key not in names and key not in others)
    if unknown:
        raise ConfigError(f"{part}: unknown {unknown[0]!r}; known: {', '.join(names)}.")
    return [
        defaults[name] if name in defaults and name not in content else _size(content, name, part)
        for name in names
    ]


def _size(content: Record, name: str, part: str) -> int:
    where = f"{part}.{name}" if part else name
    if name not in content:
        raise ConfigError(f"{where} is missing.")
    value = content[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= UNLIMITED:
        raise ConfigError(f"{where}: expected a whole number from 1, got {value!r}.")
    return value


def _parallel(pairs: Any) -> tuple[list[int], list[int]]:
    if not isinstance(pairs, list) or len(pairs) > PARALLEL:
        raise ConfigError(
            f"par: expected at most {PARALLEL} pairs of a dimension and a factor, got {pairs!r}."
        )
    dims, factors = [], []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or pair[0] not in TILED:
            raise ConfigError(
                f"par: expected a dimension of {', '.join(TILED)} and a factor, got {pair!r}."
            )
        dims.append(TILED.index(pair[0]))
        factors.append(_size({"factor": pair[1]}, "factor", f"par.{pair[0]}"))
    missing = PARALLEL - len(pairs)
    return dims + [NONE] * missing, factors + [1] * missing

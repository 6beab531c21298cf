"""Stored mappings in the words of who asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from costmodel.loop_nest.records import mapping_record, record_code
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.mapping import renamed
from costmodel.problems.affine import Workload
from costmodel.space import Codes
from mapspace.errors import DataError
from orchestrator.store.canonical import canonical


def stored_code(
    space: MapSpace, workload: Workload, record: Mapping[str, Any], code: Sequence[int] = ()
) -> Codes:
    """The code `[D]` of a stored mapping in the space of who asks, whose names may be others.

    Args:
        space: of who asks.
        workload: of the mapping.
        record: the mapping.
        code: its code, which also says the order of loops that do not run; empty: any will do.

    Raises:
        ConfigError: it is no mapping of this space.
        DataError: the workload is another one.
    """
    if workload.hash == space.workload.hash:
        exact = np.array(code, np.int32)
        same = exact.shape == space.cardinality.shape and bool((exact < space.cardinality).all())
        if same and mapping_record(space, exact)["mapping"] == record["mapping"]:
            return exact
        return record_code(space, record)
    its = MapSpace(workload, space.accelerator)
    mapping = its.describe(record_code(its, record))
    ours, theirs = canonical(space.workload), canonical(workload)
    if ours.form != theirs.form:
        raise DataError("its workload is another one.")
    names = dict(zip(theirs.dimensions, ours.dimensions, strict=True))
    names_of_tensors = dict(zip(theirs.tensors, ours.tensors, strict=True))
    return space.code(renamed(mapping, names, names_of_tensors, space.workload.tensor_names))

"""Waiting for the interface, and what is loaded before the first fold, as SCALE-Sim counts them.

SCALE-Sim walks through a layer cycle by cycle, and so does this: `stall_kernel`. Without a limit of
the bandwidth (`CALC`) operands are always there in time; what is loaded before the first fold then
comes at 10 words per cycle, and as many outputs leave as the array has columns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from costmodel.networks.scalesim_topology import TopologyLayer
from costmodel.scalesim.configuration import Dataflow, ScaleSimArray
from costmodel.scalesim.dataflows import DataflowCycles, dataflow_cycles
from costmodel.scalesim.stall_kernel import by_diagonals, walk

Words = npt.NDArray[np.int64]

MOST_WORDS = 1 << 25
"""Entries of a layer's largest matrix that is walked through: a gigabyte of memory."""

MOST_STEPS = 1 << 28
"""Cycles times rows and columns of the array: some seconds."""

_SETS = 100
_CALCULATED = 10


def cycles_with_stalls(
    array: ScaleSimArray, layer: TopologyLayer, dataflow: Dataflow
) -> DataflowCycles:
    """The cycles of one run of a layer with its stalls, which a layer that is too large lacks.

    Args:
        array: with its buffers and bandwidths.
        layer: of a topology.
        dataflow: what is stationary.
    """
    found = dataflow_cycles(array, layer, dataflow)
    steps = found.cycles * (array.rows + array.columns)
    sizes = layer.pixels * layer.window, layer.window * layer.filters
    if max(sizes) > MOST_WORDS or steps > MOST_STEPS:
        return found
    inputs, filters = _inputs(layer), np.arange(sizes[1]).reshape(layer.window, layer.filters)
    stays = dataflow == "os"
    if dataflow == "is":
        x, y = filters.T, inputs.T
    else:
        x, y = inputs.T if stays else inputs, filters
    x = np.ascontiguousarray(x)
    y = np.ascontiguousarray(y)
    room = array.input_bytes, array.filter_bytes
    limits = array.bandwidths
    widths = (_CALCULATED,) * 2 if limits is None else (limits.inputs, limits.filters)
    if dataflow == "is":
        room, widths = room[::-1], widths[::-1]
    along = (_skewed(x, array.rows), (_skewed if stays else _by_row)(y, array.columns))
    orders = along[0][along[0] >= 0], along[1][along[1] >= 0]
    buffers = np.zeros((2, 7), np.int64)
    first = 0
    for place, (every, order) in enumerate(zip(along, orders, strict=True)):
        size, width = room[place], widths[place]
        if limits is None:
            # What streams does so when all rows are loaded, those that are used last.
            begin = (array.rows, max(0, array.rows - x.shape[1]))[place]
            first = min(first, _before(order, size, 0 if stays else begin))
            continue
        lines = -(-every.size // width)
        first = min(first, -min(lines, -(-_half(size) // width)))
        buffers[place] = _buffer(order.size, size, width)
    width = array.columns if limits is None else limits.outputs
    shape = (array.rows, array.columns, stays, limits is not None, x.shape[0])
    outputs = np.array([array.output_bytes, width], np.int64)
    waited, gone = walk(np.array(shape, np.int64), x, y, buffers, orders, outputs)
    return replace(found, stalls=int(waited), cycles_with_prefetch=int(gone - first))


def _half(size: int) -> int:
    return -(-size // 2)


def _buffer(words: int, size: int, width: int) -> list[int]:
    """A buffer before its first word, as `stall_kernel` has it."""
    items = -(-size // _SETS)
    lines = words // items + 1
    active = min(lines, -(-_half(size) // items))
    ahead = min(lines - active, -(-(size - _half(size)) // items))
    return [0, active, ahead, lines, items, -1, -(-(size - _half(size)) // width)]


def _before(order: Words, size: int, begin: int) -> int:
    """The cycle in which the first word has to come where the bandwidth is not limited.

    Args:
        order: words of the operand.
        size: of its buffer.
        begin: the cycle in which the array reads the first one.
    """
    items = size // _SETS
    distinct = int(np.count_nonzero(np.bincount(order)))
    if distinct >= _SETS // 2 * items:
        return begin - -(-(_SETS // 2 * items) // _CALCULATED)
    # What the buffer holds whole is there before cycle 0, in whole sets.
    return (-distinct // items * items) // _CALCULATED


def _inputs(layer: TopologyLayer) -> Words:
    """`[P Q, C R S]` words of the input that each output is made of; -1 beyond its edge."""
    height, width = layer.output
    rows, columns = (
        array.reshape(-1, 1) * layer.stride for array in np.divmod(np.arange(height * width), width)
    )
    taps, channel = np.divmod(np.arange(layer.window), layer.channels)
    down, across = np.divmod(taps, layer.filter_width)
    words: Words = ((rows + down) * layer.width + columns + across) * layer.channels + channel
    words[(rows + down >= layer.height) | (columns + across >= layer.width)] = -1
    return words


def _folded(matrix: Words, width: int) -> Words:
    """`[folds x length, width]` folds of a matrix's columns below each other, -1 beyond it."""
    length, columns = matrix.shape
    folds = -(-columns // width)
    whole = np.full((length, folds * width), -1)
    whole[:, :columns] = matrix
    return whole.reshape(length, folds, width).swapaxes(0, 1).reshape(folds * length, width)


def _by_row(matrix: Words, width: int) -> Words:
    return _folded(matrix, width).ravel()


def _skewed(matrix: Words, width: int) -> Words:
    return by_diagonals(_folded(matrix, width))

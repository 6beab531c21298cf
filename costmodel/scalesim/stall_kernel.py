"""A layer's folds cycle by cycle through three buffers of two halves, as in SCALE-Sim 3.0.0.

Letters: F words of an operand, W words in the order in which they are fetched, `x` the operand that
streams over the rows of the array, `y` the one over its columns. An operand's buffer holds a window
of its fetch order, in lines of a hundredth of the buffer. A word outside the window moves it on by
half a buffer, until the word is inside; the array waits for that half to come, and SCALE-Sim counts
what it waits for twice, or takes off once what was there early.
"""

from __future__ import annotations

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import compiled

START, ACTIVE, AHEAD, LINES, ITEMS, LAST, PER_HALF = range(7)
"""Of an operand's buffer: the first line of its window, lines of the window and of what is fetched
ahead, lines in all, words of a line, the cycle in which the last word came, cycles of a half."""


@compiled
def by_diagonals(matrix: Array) -> Array:
    """`[R x C]` entries of a matrix `[R, C]` by diagonals, those of the lower rows first."""
    rows, columns = matrix.shape
    found = np.empty(rows * columns, np.int64)
    place = 0
    for diagonal in range(rows + columns - 1):
        lowest = min(diagonal, rows - 1)
        for row in range(lowest, max(0, diagonal - columns + 1) - 1, -1):
            found[place] = matrix[row, diagonal - row]
            place += 1
    return found


@compiled
def fill_window(buffer: Array, order: Array, held: Array, gained: int) -> None:
    """Counts the words of a window's lines in or out.

    Args:
        buffer: `[7]`, see above.
        order: `[W]` words in the order in which they are fetched.
        held: `[F]` how often each word is in the window; changed.
        gained: 1 takes the first lines of the window in, -1 out.
    """
    first = buffer[START]
    count = buffer[ACTIVE] if gained > 0 else buffer[AHEAD]
    for line in range(first, first + count):
        place = (line % buffer[LINES]) * buffer[ITEMS]
        for at in range(place, min(place + buffer[ITEMS], order.size)):
            held[order[at]] += gained


@compiled
def serve(buffer: Array, order: Array, held: Array, word: int, when: int) -> int:
    """Moves a window on until it holds a word.

    Args:
        buffer: as above; changed.
        order: as above.
        held: as above; changed.
        word: what the array reads.
        when: the cycle in which it would have it.

    Returns:
        The cycle in which it has it.
    """
    while held[word] == 0:
        fill_window(buffer, order, held, -1)
        old_end = buffer[START] + buffer[ACTIVE]
        buffer[START] = (buffer[START] + buffer[AHEAD]) % buffer[LINES]
        for line in range(old_end, old_end + buffer[AHEAD]):
            place = (line % buffer[LINES]) * buffer[ITEMS]
            for at in range(place, min(place + buffer[ITEMS], order.size)):
                held[order[at]] += 1
        buffer[LAST] += buffer[PER_HALF] + 1
        late = buffer[LAST] - when
        when += late
        if late > 0:
            when += late
    return when


@compiled
def drained(writes: Array, rows: Array, half: int, width: int, cycle: int) -> int:
    """Sends rows of the outputs' buffer away, as many as fill half of it.

    Args:
        writes: `[4]` free words, words of the row that is being filled, the first row to be sent,
            rows that are whole; changed.
        rows: words of each row.
        half: words of half of the buffer.
        width: words of a row, which is what is sent in a cycle.
        cycle: in which it begins.

    Returns:
        The last cycle of it.
    """
    last = min(writes[2] + (half + width - 1) // width, writes[3])
    count = last - writes[2]
    writes[0] += count * width - (width - rows[last - 1])
    writes[2] = last
    end: int = cycle + count - 1
    return end


@compiled
def close_row(writes: Array, rows: Array) -> Array:
    """Ends the row that is being filled, whole or not; there is room for one more row behind."""
    if writes[1] > 0:
        rows[writes[3]] = writes[1]
        writes[3] += 1
        writes[1] = 0
    if writes[3] >= rows.size:
        longer = np.zeros(2 * rows.size, np.int64)
        longer[: rows.size] = rows
        return longer
    return rows


@compiled
def walk(
    shape: Array,
    x: Array,
    y: Array,
    buffers: Array,
    orders: tuple[Array, Array],
    outputs: Array,
) -> Array:
    """Runs all folds of a layer.

    Args:
        shape: `[5]` rows, columns, whether outputs stay in the array, whether reads are limited,
            words of what is streamed.
        x: `[T, rows of all folds]` words that stream, or -1 where there is none.
        y: `[T or rows of all folds, columns of all folds]` likewise: they stream where outputs
            stay, else they are loaded.
        buffers: `[2, 7]` of x and y, see above.
        orders: of x and y, words in the order in which they are fetched.
        outputs: `[2]` words of the outputs' buffer, words that leave in a cycle.

    Returns:
        `[2]` cycles of waiting, and the cycle in which the last output has left.
    """
    rows, columns, stays, limited, streamed = shape
    size, width = outputs
    half = size // 2
    held_x, held_y = np.zeros(x.max() + 2, np.int64), np.zeros(y.max() + 2, np.int64)
    if limited:
        fill_window(buffers[0], orders[0], held_x, 1)
        fill_window(buffers[1], orders[1], held_y, 1)
    over_rows = x.shape[1]
    over_columns = y.shape[1]
    load = 0 if stays else rows
    lines = streamed + load + rows + columns - 2
    writes = np.array([size, 0, 0, 0], np.int64)
    written = np.zeros(1 << 10, np.int64)
    drain_end, waited, now, current = 0, 0, 0, 0
    for column_fold in range(0, over_columns, columns):
        for row_fold in range(0, over_rows, rows):
            used_rows = min(rows, over_rows - row_fold)
            used_columns = min(columns, over_columns - column_fold)
            for t in range(lines):
                cycle = now + waited
                stall = 0
                if limited:
                    when = cycle + 1
                    first, end = max(0, t - load - streamed + 1), min(used_rows, t - load + 1)
                    for j in range(first, end):
                        word = x[t - load - j, row_fold + j]
                        if word >= 0:
                            when = serve(buffers[0], orders[0], held_x, word, when)
                    stall = when - cycle - 1
                    when = cycle + 1
                    if stays:
                        for j in range(max(0, t - streamed + 1), min(used_columns, t + 1)):
                            word = y[t - j, column_fold + j]
                            if word >= 0:
                                when = serve(buffers[1], orders[1], held_y, word, when)
                    elif rows - used_rows <= t < rows:
                        # The top row is loaded last.
                        for j in range(used_columns):
                            word = y[row_fold + rows - 1 - t, column_fold + j]
                            if word >= 0:
                                when = serve(buffers[1], orders[1], held_y, word, when)
                    stall = max(stall, when - cycle - 1)
                # What leaves the array in this cycle: a column's outputs one after another.
                lead = streamed - 1 if stays else 2 * rows - 1
                first = max(0, t - lead - (rows if stays else streamed) + 1)
                end = min(used_columns, t - lead + 1)
                if stays:
                    # The bottom row leaves first, and what the fold does not use lies below.
                    end = min(end, t - lead - (rows - used_rows) + 1)
                current = cycle
                for _ in range(end - first):
                    writes[0] -= 1
                    writes[1] += 1
                    if writes[1] == width:
                        written = close_row(writes, written)
                    if current < drain_end:
                        if writes[0] <= 0:
                            current = drain_end
                    elif writes[0] < size - half:
                        written = close_row(writes, written)
                        drain_end = drained(writes, written, half, width, current)
                stall = max(stall, current - cycle)
                waited += stall
                now += 1
    written = close_row(writes, written)
    gone, cycle = drain_end, current
    while writes[2] < writes[3]:
        gone = drained(writes, written, half, width, cycle)
        cycle = gone + 1
    return np.array([waited, max(gone, drain_end)], np.int64)

"""Cascades: operators in a row that run in turns, pass by pass, with what is between on the chip.

A *cascade* is two to five operators, each of which but the first reads what the one before it
writes, and nothing else does. *Shared loops* stand outside all of them. They cut *shared axes*: an
axis runs through the whole cascade, from a dimension of the first operator's output to one of the
last operator, by the axes of the tensors between.

* Where an activation makes one column of two, of a gate and of what it gates, both are cut alike.
* Columns of tokens may be read as heads, and heads as columns: an axis is then as long as it has
  whole heads, or whole tokens.
* An operator between two others has the axis in its output: what it sums over closes within a pass,
  before the next operator reads it. The last operator may sum over a cut axis; then the piece of
  its output stays in the buffer, and passes add to it.
* A softmax between two operators looks at whole rows. Where the last operator sums over the rows,
  these may be cut: a running maximum and a running sum, two words a row, lie in the buffer; each
  pass sets or renews them, and scales what was added up before, a multiply-accumulate a word.
* Where a later operator has a window (`P + R`, `2*P + R`), earlier ones compute in each pass as
  many rows as the window needs, those that the pass before had too: overlaps are computed again.
* In a pass each operator runs once, in the order of the network, by a mapping of its own for its
  tile, from empty buffers. The tensors between lie in the shared buffer as tiles, from when they
  are written until they are read, and nowhere else.
* Pieces of other tensors may be *kept* in that buffer over several passes: weights, keys, the first
  operator's input, the last one's output. A piece comes whole when the loops change it.

So the energy of a cascade is exactly that of its moves and, pass for pass, of its operators; its
cycles likewise: nothing overlaps. An operator of a network may be in no cascade.
"""

"""Where the paper's searches end: Mind Mappings (ASPLOS 2021), Figure 5, read off its plots.

EDP over the paper's algorithmic minimum after 5,000 iterations of its gradient search, by the
presets of Table 1. Inception is drawn for C = 64, as the released code has it, not for the C = 192
of the table. The cost model is the paper's (Timeloop on its accelerator), not this one: beside ours
stand how far each lies above what is known to be possible here, not two results of one experiment.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ITERATIONS = 5000

END_POINTS: Mapping[str, float] = MappingProxyType(
    {
        "vgg-conv2": 4.5,
        "inception-conv2-c64": 4.7,
        "alexnet-conv2": 5.7,
        "alexnet-conv4": 5.3,
        "resnet-conv3": 4.6,
        "resnet-conv4": 4.75,
        "mttkrp-0": 6.8,
        "mttkrp-1": 8.0,
    }
)

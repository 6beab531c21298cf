"""The commands that answer for one machine, now. Each imports what it needs itself."""

from orchestrator.commands.bypass import bypass
from orchestrator.commands.compare import compare
from orchestrator.commands.evaluate import evaluate
from orchestrator.commands.explain import diff, explain
from orchestrator.commands.export import export, schema
from orchestrator.commands.import_files import check, import_
from orchestrator.commands.proofs import pareto, verify
from orchestrator.commands.results import results
from orchestrator.commands.search import search
from orchestrator.commands.submit import submit
from orchestrator.commands.tile import tile
from orchestrator.commands.watch import watch

COMMANDS = (
    search, results, watch, tile, verify, pareto, bypass, evaluate, explain, diff, compare,
    export, schema, import_, check, submit,
)  # fmt: skip

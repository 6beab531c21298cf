"""Runs everything: commands, experiments on Ray, tracking and reports.

Foundations: `runs` (folders, locks, Ray, checkpoints, progress) and `report` (how results look).
Products, each on top of them: `search` (its `answers`, `networks`, `bypass`, `proofs`, `records`;
its `commands`), `map_space`, `benchmark` with its `comparison`, `sweep`, `training` and `marvel`.
`cli` and `catalogue` are what a person types, `api` is what Python calls.
"""

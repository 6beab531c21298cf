"""A second look at a certificate that shares no bound, no table and no compiled code with a proof.

Plain Python on integers and fractions, slow: `counting` is the cost of one mapping by the formulas
of docs/inside/cost-model.md, `mappings` lists or draws mappings, `check` holds a certificate
against them.
"""

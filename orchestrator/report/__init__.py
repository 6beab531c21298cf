"""How results are shown: units, tables, figures and pages."""

"""Any simulator with a command line as a cost model: how it is called and its costs are read."""

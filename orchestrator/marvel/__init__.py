"""The Marvel evaluation: layers and networks on MAESTRO's model, beside the paper's figures."""

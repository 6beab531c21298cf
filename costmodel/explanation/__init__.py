"""Why an optimum is what it is: neighbours of its machine proven, decisions that are forced."""

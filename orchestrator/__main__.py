"""`python -m orchestrator` is `mapspace`."""

from orchestrator.cli import main

if __name__ == "__main__":
    main()

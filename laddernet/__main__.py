"""``python -m laddernet``, the same as ``laddernet``."""

from laddernet.cli.main import main

if __name__ == "__main__":
    main()

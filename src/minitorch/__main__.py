"""`python -m minitorch` is the `minitorch` command."""

import sys

from minitorch.app.command import main

if __name__ == "__main__":
    sys.exit(main())

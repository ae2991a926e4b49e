"""`python -m bench.bars` holds the bars: see `bench.gates.bars`."""

import sys

from bench.gates.bars.__main__ import main

if __name__ == "__main__":
    sys.exit(main())

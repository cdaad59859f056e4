"""`python -m ringfence ARGUMENTS` is the command line."""

from __future__ import annotations

import os
import sys

from ._errors import RingfenceError
from ._program import program


def main() -> None:
    try:
        os.execv(program(), ["ringfence", *sys.argv[1:]])
    except (OSError, RingfenceError) as e:
        sys.exit(f"ringfence: {e}")


if __name__ == "__main__":
    main()

"""`python -m tau`."""

import sys

# With -m, Python searches the working directory first. That is the project's, so no module may come from there.
if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

from tau.cli.entry import tau

if __name__ == "__main__":
    tau()

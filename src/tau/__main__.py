"""python -m tau"""

import sys

# With -m Python looks for modules in the working directory first, and that is the project's: take none from there.
if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

from tau.cli.main import tau

if __name__ == "__main__":
    tau()

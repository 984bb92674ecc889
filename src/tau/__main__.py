"""python -m tau"""

from tau.cli.main import tau

if __name__ == "__main__":
    tau()

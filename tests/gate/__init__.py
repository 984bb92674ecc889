"""The figures that a change must keep: `make gate` takes them all, the tests take a tenth of each."""

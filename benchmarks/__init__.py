"""What tau costs, beside real pi: `python -m benchmarks`, or `make bench`."""

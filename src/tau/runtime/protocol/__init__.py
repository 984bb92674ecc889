"""The line protocol of RPC mode, without a transport: requests, responses, start-up, output with backpressure."""

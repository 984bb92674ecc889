"""Warm start (`tau warm`): a server keeps a worker that has loaded tau already, and a launcher gives its job to it."""

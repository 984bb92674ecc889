"""The agent loop and what it decides with: drafts, retries, queues, budgets, structured output."""

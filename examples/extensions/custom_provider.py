"""Models of a server of your own: anything that speaks one of the APIs tau knows.

TEAM_LLM_URL says where it is, and the variable TEAM_LLM_KEY holds the key. With
--team-model=NAME another model than the default is offered.
"""

import os


def setup(pi):
    pi.register_flag("team-model", str, "team-large", "a model of the team's server")
    pi.register_provider(
        "team",
        {
            "baseUrl": os.environ.get("TEAM_LLM_URL", "http://localhost:8000/v1"),
            "apiKey": "TEAM_LLM_KEY",  # the name of the variable, not the key
            "api": "openai-completions",
            "models": [
                {
                    "id": pi.get_flag("team-model"),
                    "name": "The team's model",
                    "reasoning": False,
                    "input": ["text"],
                    "contextWindow": 128_000,
                    "maxTokens": 8_192,
                    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
                }
            ],
        },
    )

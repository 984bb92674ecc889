"""pi --list-models"""

from __future__ import annotations

from tau.cli.flags import Given
from tau.host.opening import known_models
from tau.store.keys import Keys
from tau.store.places import agent_dir


def main(given: Given) -> int:
    folder = agent_dir()
    models, _ = known_models(folder, Keys(folder / "auth.json"))
    wanted = " ".join(given.words).lower()
    for model in models.available:
        name = f"{model.provider}/{model.id}"
        if wanted in name.lower() or wanted in model.name.lower():
            print(f"{name}  {model.name}, {model.context_window} tokens")
    return 0

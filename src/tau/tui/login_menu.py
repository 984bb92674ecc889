"""/login and /logout, and the choice of a model when there is none yet."""

from __future__ import annotations

from tau.concurrency.threads import run_in_thread
from tau.errors import CommandError
from tau.runtime.app.login_control import LoginControl, ProviderState
from tau.screen.modals.search_list import ListRow, SearchList
from tau.screen.modals.text_field import TextField
from tau.store.config_values import not_set
from tau.tui.surface import Surface

WITHOUT_SCREEN = "A key cannot be typed here without being shown. `tau login PROVIDER` in another terminal asks for it."


async def log_in(surface: Surface, name: str) -> None:
    """Store a key of a provider, or log in with OAuth. Without a name, the person chooses a provider."""
    control = surface.handle.login_control
    provider = await _provider(surface, control, name)
    if provider is not None and await _log_in(surface, control, provider):
        await _begin_with(surface, control, provider.name)


async def _provider(surface: Surface, control: LoginControl, name: str) -> ProviderState | None:
    if name:
        return await run_in_thread(lambda: control.provider(name), "login")
    states = await run_in_thread(control.providers, "login")
    rows = [ListRow(state.name, _source(state)) for state in states]
    outcome = await surface.open(SearchList("Log in", rows))
    return states[outcome.value] if outcome.action == "confirm" else None


def _source(state: ProviderState) -> str:
    kind = "login with OAuth" if state.oauth else ""
    key = f"key from {state.source}" if state.source else ""
    if state.missing:
        key = f"no key: {not_set(state.missing)} ({state.source})"
    return " · ".join(filter(None, (key, kind)))


async def _log_in(surface: Surface, control: LoginControl, provider: ProviderState) -> bool:
    """Returns False if the person left without a key."""
    if provider.oauth:
        await control.log_in(provider.name, lambda text: _show_address(surface, text))
        surface.say(f"Logged in to {provider.name}.")
        return True
    if surface.looks is None:
        raise CommandError(WITHOUT_SCREEN)
    instead = f" Or set the variable {provider.variable} and start again." if provider.variable else ""
    about = f"The key is not shown. It is stored in auth.json, readable only by you.{instead} A login with a " + (
        "subscription is not offered; one that pi has stored is used."
    )
    outcome = await surface.open(TextField(f"API key for {provider.name}", about, hidden=True))
    if outcome.action != "confirm" or not outcome.value.strip():
        surface.say("Nothing was stored.")
        return False
    stored = await control.store_key(provider.name, outcome.value)
    surface.say(f"The key for {provider.name} is stored in {stored.path}. {stored.note}")
    return True


async def _show_address(surface: Surface, text: str) -> None:
    """Show a sentence with a code, or an address, which is copied: it is too long for one row of most terminals."""
    if not text.startswith(("http://", "https://")):
        surface.say(text)
        return
    try:
        copied = f" It is copied {await surface.copy(text)}."
    except CommandError:
        copied = ""
    surface.say(f"Log in with your browser at this address.{copied}\n{text}")


async def _begin_with(surface: Surface, control: LoginControl, provider: str) -> None:
    """Choose a model of the provider, if there was none before."""
    handle = surface.handle
    model = control.default_model(provider)
    if handle.models.current is None and model is not None:
        await control.begin_with(f"{model.provider}/{model.id}")
        surface.say(f"The model is {model.provider}/{model.id}. /model chooses another one.")
    surface.changed()


async def log_out(surface: Surface, name: str) -> None:
    control = surface.handle.login_control
    stored = [state.name for state in await run_in_thread(control.providers, "login") if state.stored]
    if not stored:
        surface.say("auth.json has no entries.")
        return
    if not name:
        chosen = await surface.choose("Log out", stored)
        if chosen is None:
            return
        name = stored[chosen]
    if name not in stored:
        raise CommandError(f"auth.json has no entry for {name}. It has {', '.join(stored)}.")
    done = await control.log_out(name)
    surface.say(f"The entry for {name} was removed.")
    if done.not_revoked is not None:
        surface.say(f"The tokens may still be valid: {done.not_revoked}", "warning")
    if done.other_source is not None:
        surface.say(f"{name} still has a key: {done.other_source}.")


async def choose_first_model(surface: Surface) -> bool:
    """There is no model: let the person paste a key, use a local server, or the demo. False if there is still none."""
    handle, control = surface.handle, surface.handle.login_control
    local = await control.local_models()
    rows = [
        ListRow("Paste an API key", "of a provider such as Anthropic, OpenAI or Google"),
        *(ListRow(f"{model.provider}/{model.id}", "a server on this machine") for model in local),
        ListRow("Demo", "a model without a network, to look around"),
    ]
    outcome = await surface.open(SearchList("There is no model yet", rows))
    if outcome.action != "confirm":
        surface.say("There is no model yet. /login stores an API key, /model demo needs none.")
        return False
    if outcome.value == 0:
        await log_in(surface, "")
    elif outcome.value <= len(local):
        model = local[outcome.value - 1]
        await control.begin_with(f"{model.provider}/{model.id}")
    else:
        await control.begin_with("demo")
    return handle.models.current is not None

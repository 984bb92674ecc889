"""/trust: whether the files of this project take effect, and a decision about it."""

from __future__ import annotations

from tau.concurrency.threads import run_in_thread
from tau.core.text.terminal_text import escape_for_display
from tau.errors import CommandError
from tau.tui.surface import Surface

YES = "Trust these files as they are now"
NO = "Do not trust this project"
MAX_SHOWN = 20  # files


async def decide_trust(surface: Surface) -> None:
    handle = surface.handle
    control = handle.trust_control
    state = await run_in_thread(control.state, "trust")
    if not state.files:
        surface.say("This project has no files that need trust: no settings, extensions or system prompt in .pi.")
        return
    names = [f"  {escape_for_display(name)}" for name in state.files[:MAX_SHOWN]]
    if len(state.files) > MAX_SHOWN:
        names.append(f"  and {len(state.files) - MAX_SHOWN} more")
    title = f"This project is {'trusted' if state.trusted else 'not trusted'}. Its files:"
    surface.say("\n".join([title, *names, *state.servers]))
    chosen = await surface.choose("Trust", [YES, NO], 1)
    if chosen is None:
        return
    await run_in_thread(lambda: control.decide(trusted=chosen == 0, asked_about=state), "trust")
    surface.say(f"Saved: {'trusted until one of these files changes' if chosen == 0 else 'not trusted'}.")
    current = handle.state.current()
    if state.fixed_for_run:
        surface.say("This run was started with --approve or --no-approve, which stays in force.")
    elif current.is_streaming or current.is_compacting:
        raise CommandError("It takes effect with /reload, when the run has ended.")
    else:
        await handle.settings_control.reload()
        await handle.reload()
        if surface.looks is not None:
            surface.looks.use_settings(handle.settings)

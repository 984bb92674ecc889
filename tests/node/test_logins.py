"""OAuth logins of providers that TypeScript extensions register."""

# ruff: noqa: E501  # lines of extensions

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

from support.in_process_session import play
from support.node_program import node, script
from support.rpc_process import Agent, of
from support.terminal_session import TerminalSession

# A provider whose model answers with the key of the call. Its tokens are valid for an hour.
PROVIDER = """
    import { createAssistantMessageEventStream } from "@earendil-works/pi-ai";

    const credentials = (access: string, more = {}) => ({ access, refresh: `${access}-refresh`, expires: Date.now() + 3600_000, ...more });

    export default function (pi: any) {
        pi.registerProvider("corporate", {
            baseUrl: "http://127.0.0.1:1", api: "corporate-api",
            models: [{ id: "m", name: "M", reasoning: false, input: ["text"], contextWindow: 1000, maxTokens: 100,
                cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } }],
            oauth: {
                name: "Corporate",
                async login(callbacks: any) {
                    callbacks.onAuth({ url: "http://127.0.0.1:1/login", instructions: "Choose an account." });
                    callbacks.onProgress("Waiting");
                    const region = await callbacks.onSelect({ message: "Region", options: [{ id: "eu", label: "Europe" }, { id: "us", label: "America" }] });
                    callbacks.onManualCodeInput(); // not answered: the login ends before
                    return credentials("first", { region });
                },
                async refreshToken(old: any, signal: AbortSignal) {
                    if (old.refresh !== "old-refresh") throw new Error(`Unknown token, ${signal.aborted}`);
                    return credentials("fresh");
                },
                getApiKey: (login: any) => JSON.stringify({ token: login.access, region: login.region }),
                modifyModels: (models: any[], login: any) => models.map((model) => ({ ...model, name: `${model.provider} ${login.region}` })),
            },
            streamSimple(model: any, context: any, options: any) {
                const stream = createAssistantMessageEventStream();
                const partial: any = { role: "assistant", content: [] };
                queueMicrotask(() => {
                    stream.push({ type: "text_delta", contentIndex: 0, delta: options.apiKey, partial });
                    stream.push({ type: "done", reason: "stop", message: partial });
                });
                return stream;
            },
        });
    }
    """


def program(folder: Path, login: dict[str, Any]) -> Agent:
    path = script(folder, PROVIDER)
    script(folder / "agent", json.dumps({"corporate": {"type": "oauth", **login}}), "auth.json").chmod(0o600)
    settings = {"extensionHost": {"node": node(), "loadTimeoutMs": 60_000}}
    return Agent(folder, offline=False, settings=settings, args=["--model", "corporate/m", "-e", str(path)])


def stored(folder: Path) -> Any:
    return json.loads((folder / "agent" / "auth.json").read_text())["corporate"]


def test_an_expired_login_is_refreshed_by_its_extension_and_stored(tmp_path: Path) -> None:
    with program(tmp_path, {"access": "old", "refresh": "old-refresh", "expires": 1, "region": "eu"}) as agent:
        assert agent.get("get_state")["model"]["name"] == "corporate eu"
        answer = of("message_end", agent.prompt("go"))[-1]["message"]["content"]
        assert answer == [{"type": "text", "text": '{"token":"fresh","region":"eu"}'}]
        again = of("message_end", agent.prompt("go"))[-1]["message"]["content"]
        assert again == answer
    login = stored(tmp_path)
    assert {name: login[name] for name in ("type", "access", "refresh", "region")} == {
        **{"type": "oauth", "access": "fresh", "refresh": "fresh-refresh"},
        "region": "eu",
    }


def test_a_login_that_cannot_be_refreshed_stays_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    login = {"access": "gone", "refresh": "gone-refresh", "expires": 1}
    with program(tmp_path, login) as agent:
        message = of("message_end", agent.prompt("go"))[-1]["message"]
        assert message["errorMessage"] == (
            "The login for corporate could not be used: Unknown token, false. Log in again with /login corporate."
        )
    assert stored(tmp_path) == {"type": "oauth", **login}


def test_the_terminal_logs_in_with_the_functions_of_the_extension(tmp_path: Path) -> None:
    host = {"extensionHost": {"node": node(), "loadTimeoutMs": 60_000}}

    async def story() -> None:
        terminal = TerminalSession(tmp_path, extension=PROVIDER, name="extension.ts", settings=host)
        await terminal.handle.start()
        control = terminal.handle.login_control
        assert control.provider("corporate").oauth
        assert [model.provider for model in terminal.handle.models.available if model.provider == "corporate"] == []
        shown: list[str] = []

        async def show(text: str) -> None:
            shown.append(text)

        work = asyncio.ensure_future(control.log_in("corporate", show))
        await terminal.until(lambda: "Region" in "".join(terminal.screen()))
        terminal.press("down", "enter")
        await work
        assert shown == ["http://127.0.0.1:1/login", "Choose an account.", "Waiting"]
        assert (stored(tmp_path)["access"], stored(tmp_path)["region"]) == ("first", "us")
        assert stat.S_IMODE((tmp_path / "agent" / "auth.json").stat().st_mode) == 0o600
        models = [model for model in terminal.handle.models.available if model.provider == "corporate"]
        assert [model.name for model in models] == ["corporate us"]
        await control.log_out("corporate")
        assert "corporate" not in json.loads((tmp_path / "agent" / "auth.json").read_text())
        assert terminal.errors == []
        await terminal.handle.close()

    play(story())

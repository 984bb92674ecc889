"""The methods of the protocol: their parameters and their handlers.

A handler returns the result, or a coroutine of it; raising AcpError answers with an error. A coroutine that returns an
`Answer` names something to do right after the response is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from tau.acp import requests
from tau.acp.errors import AUTH_REQUIRED, AcpError, invalid_params
from tau.acp.initialize import auth_methods, initialize_result
from tau.acp.outcomes import PromptResult
from tau.acp.updates import ConfigUpdate, ModeUpdate

if TYPE_CHECKING:
    from tau.acp.server import Server
    from tau.acp.turns import Turn
    from tau.wire.jsonrpc import Id


class Answer(NamedTuple):
    result: Any
    after: Callable[[], None]


class Method(NamedTuple):
    params: type[requests.Params]
    handler: Callable[..., Any]
    with_id: bool = False  # the handler also gets the id of the request


def initialize(server: Server, params: requests.Initialize) -> dict[str, Any]:
    server.initialized(requests.capabilities_of(params.client_capabilities), params.client_info)
    return initialize_result(server.client.capabilities)


async def authenticate(server: Server, params: requests.Authenticate) -> dict[str, Any]:
    methods = auth_methods(server.client.capabilities)
    if params.method_id not in [method["id"] for method in methods]:
        raise invalid_params("methodId", f"there is no method {params.method_id!r}")
    if not await server.sessions.reload_keys():
        message = "There is no API key. Set a variable such as ANTHROPIC_API_KEY, or run `tau login` in a terminal."
        raise AcpError(AUTH_REQUIRED, message, {"authMethods": methods})
    return {}


async def new_session(server: Server, params: requests.NewSession) -> Answer:
    session = await server.sessions.new(params.cwd, params.mcp_servers)
    choices = session.choices.state()
    result = {"sessionId": session.id, "configOptions": choices.config_options, "modes": choices.modes}
    return Answer(result, session.announce)


async def load_session(server: Server, params: requests.LoadSession) -> Answer:
    session = await server.sessions.existing(params.session_id, params.cwd, params.mcp_servers)
    await server.sessions.replay(session)
    return Answer(session.choices.state(), session.announce)


async def resume_session(server: Server, params: requests.ResumeSession) -> Answer:
    session = await server.sessions.existing(params.session_id, params.cwd, params.mcp_servers)
    return Answer(session.choices.state(), session.announce)


async def list_sessions(server: Server, params: requests.ListSessions) -> dict[str, Any]:
    return await server.sessions.listed(params)


async def close_session(server: Server, params: requests.OneSession) -> dict[str, Any]:
    await server.sessions.close(params.session_id)
    return {}


async def delete_session(server: Server, params: requests.OneSession) -> dict[str, Any]:
    await server.sessions.delete(params.session_id)
    return {}


async def set_mode(server: Server, params: requests.SetMode) -> Answer:
    session = server.sessions.get(params.session_id)
    session.choices.set_mode(params.mode_id)
    session.choices_set()
    await server.sessions.remember(session)
    return Answer({}, lambda: session.send_set(ConfigUpdate(config_options=session.choices.options())))


async def set_config_option(server: Server, params: requests.SetConfigOption) -> Answer:
    session = server.sessions.get(params.session_id)
    before = session.choices.mode
    await session.choices.set(params.config_id, params.value)
    session.choices_set()
    await server.sessions.remember(session)
    mode = session.choices.mode
    update = None if mode == before else ModeUpdate(current_mode_id=mode)
    return Answer({"configOptions": session.choices.options()}, lambda: session.send_set(update))


def prompt(server: Server, params: requests.Prompt, id: Id) -> Coroutine[Any, Any, PromptResult]:
    """Accepted before the next line is handled, so that a cancel in the same write finds it."""
    from tau.acp.prompts import checked_prompt

    session, runner = server.sessions.get(params.session_id), server.sessions.runner(params.session_id)
    checked = checked_prompt(params)
    if checked.behavior is not None and session.handle.runs.streaming:
        turn = session.turns.joined()
        server.turns[id] = session, turn
        return _forgetting(server, id, runner.join(checked, turn))
    turn = session.turns.add()
    server.turns[id] = session, turn
    return _forgetting(server, id, runner.run(checked, turn))


async def _forgetting(server: Server, id: Id, work: Coroutine[Any, Any, PromptResult]) -> PromptResult:
    try:
        return await work
    finally:
        server.turns.pop(id, None)


def cancel(server: Server, params: requests.OneSession) -> None:
    session = server.find_session(params.session_id)
    if session is not None:
        session.cancel()


def cancel_request(server: Server, params: requests.CancelRequest) -> None:
    if params.request_id is None:
        return
    found: tuple[Any, Turn] | None = server.turns.get(params.request_id)
    if found is None:
        server.cancel_task(params.request_id)
        return
    session, turn = found
    if session.turns.cancel(turn):
        session.abort()


METHODS = {
    "initialize": Method(requests.Initialize, initialize),
    "authenticate": Method(requests.Authenticate, authenticate),
    "session/new": Method(requests.NewSession, new_session),
    "session/load": Method(requests.LoadSession, load_session),
    "session/resume": Method(requests.ResumeSession, resume_session),
    "session/list": Method(requests.ListSessions, list_sessions),
    "session/close": Method(requests.OneSession, close_session),
    "session/delete": Method(requests.OneSession, delete_session),
    "session/set_mode": Method(requests.SetMode, set_mode),
    "session/set_config_option": Method(requests.SetConfigOption, set_config_option),
    "session/prompt": Method(requests.Prompt, prompt, with_id=True),
}
NOTIFICATIONS = {
    "session/cancel": Method(requests.OneSession, cancel),
    "$/cancel_request": Method(requests.CancelRequest, cancel_request),
}

"""What TypeScript extensions can do, in the real program: one program for several promises, because each takes a start."""

# ruff: noqa: E501  # lines of extensions

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.anthropic_server import ModelServer
from support.node_program import agent, node, script
from support.rpc_process import Agent, of

# A command whose argument is a program; what it returns is shown as JSON.
RUN = """
    import { Type } from "typebox";
    import { complete } from "@earendil-works/pi-ai";
    import { convertToLlm, createBashTool, generateBranchSummary, SessionManager, SettingsManager } from "@earendil-works/pi-coding-agent";

    const seen: any = {};
    export default function (pi: any) {
        pi.registerFlag("colour", { type: "string", default: "red" });
        pi.registerCommand("run", {
            description: "Run a program",
            handler: async (args: string, ctx: any) => {
                const program = new Function("pi", "ctx", "seen", "use", `return (async () => { ${args} })()`);
                const use = { complete, convertToLlm, createBashTool, generateBranchSummary, SessionManager, SettingsManager };
                ctx.ui.notify(JSON.stringify((await program(pi, ctx, seen, use)) ?? null));
            },
        });
        pi.registerTool({
            name: "finish",
            description: "Finish",
            parameters: Type.Object({ word: Type.String() }),
            prepareArguments: (given: any) => (typeof given === "string" ? { word: given } : { word: "w", ...given }),
            execute: async (id: string, params: any, signal: AbortSignal, onUpdate: any) => {
                onUpdate({ content: [{ type: "text", text: "half" }] });
                return { content: [{ type: "text", text: params.word }], details: { word: params.word }, terminate: true };
            },
        });
        // A read never waits for an extension: in these handlers that would never end.
        const reads = (ctx: any) => [pi.getCommands().length, ctx.getSystemPrompt().length > 0, pi.getAllTools().length > 4];
        pi.on("session_start", (event: any, ctx: any) => { seen.reason = event.reason; seen.reads = [reads(ctx)]; });
        pi.on("resources_discover", (event: any, ctx: any) => { seen.reads.push(reads(ctx)); });
        pi.on("an_event_of_the_future", () => {});
        pi.on("before_agent_start", (event: any, ctx: any) => {
            seen.tools = event.systemPromptOptions.selectedTools;
            seen.reads.push(reads(ctx));
            event.systemPromptOptions.sections.house_rules = "Be kind.";
        });
        pi.on("context", (event: any) => { event.messages.push({ role: "user", content: "added", timestamp: 1 }); });
    }
    """


class Runner:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def __call__(self, program: str) -> Any:
        assert self.agent.ask("prompt", message=f"/run {program}")["success"]
        shown = self.agent.until(lambda one: one.get("method") == "notify" or one["type"] == "extension_error")[-1]
        assert shown["type"] == "extension_ui_request", shown
        return json.loads(shown["message"])


def test_the_session_is_read_and_changed_synchronously(tmp_path: Path) -> None:
    with agent(tmp_path, RUN, args=("--colour", "blue")) as program:
        run = Runner(program)
        assert run(
            "return [seen.reason, ctx.mode, ctx.hasUI, pi.getFlag('colour'), pi.getFlag('other') === undefined]"
        ) == [
            *("startup", "rpc", True),
            *("blue", True),
        ]
        program.prompt("hello")
        changes = """
            const before = ctx.sessionManager.getEntries().length;
            pi.appendEntry("kept", { a: 1 });
            const id = ctx.sessionManager.getLeafId();
            pi.setLabel(id, "mark");
            pi.setSessionName("a name");
            pi.setActiveTools(["read"]);
            const s = ctx.sessionManager;
            return [s.getEntries().length - before, s.getEntry(id).data, s.getLabel(id), pi.getSessionName(), pi.getActiveTools(),
                s.getBranch().at(-1).type, s.getLeafEntry().type, s.getHeader().type, s.getTree().length,
                s.buildSessionContext().messages.map((m) => m.role), s.getSessionFile().endsWith(".jsonl"), s.getCwd() === ctx.cwd,
                s.getSessionId().length > 8, s.getSessionDir().length > 0];
        """
        assert run(" ".join(changes.split())) == [
            *(3, {"a": 1}, "mark", "a name", ["read"]),
            *("session_info", "session_info", "session", 1),
            *(["user", "assistant"], True, True, True, True),
        ]
        removed = "const id = ctx.sessionManager.getLeafId(); pi.setLabel(id, undefined); return ctx.sessionManager.getLabel(id) ?? null"
        assert run(removed) is None
        lines = Path(run("return ctx.sessionManager.getSessionFile()")).read_text().splitlines()
        assert "label" not in json.loads(lines[-1])
        many = "for (let i = 0; i < 3000; i++) pi.appendEntry('many', i);"
        many += "return ctx.sessionManager.getEntries().filter((e) => e.customType === 'many').length"
        assert run(many) == 3000
        quick = """
            const read = (work) => { const t = performance.now(); work(); return performance.now() - t; };
            const once = () => new Promise((r) => setImmediate(() => r(read(() => ctx.isIdle()))));
            const all = []; for (let i = 0; i < 50; i++) all.push(await once());
            return Math.min(...all);
        """
        assert run(" ".join(quick.split())) < 20  # milliseconds; the others may have waited for a busy machine


def test_tools_prompts_and_models(tmp_path: Path) -> None:
    tools = {"blocks": [{"tool": "finish", "arguments": {"word": "done"}}]}
    bare = {"blocks": [{"tool": "finish", "arguments": {}}]}
    with agent(tmp_path, RUN, tools, {"text": "must not be asked"}, bare) as program:
        run = Runner(program)
        events = program.prompt("finish it")
        ended = of("tool_execution_end", events)[0]
        assert ended["result"]["content"] == [{"type": "text", "text": "done"}]
        assert [one["message"]["role"] for one in of("message_end", events)] == ["user", "assistant", "toolResult"]
        assert run("return seen.tools") == ["read", "bash", "edit", "write", "finish"]
        assert run("return seen.reads") == [[1, True, True]] * 3
        listed = run("return pi.getAllTools().map((t) => [t.name, t.sourceInfo.source])")
        assert ["finish", "cli"] in listed and ["bash", "builtin"] in listed
        assert run("return pi.getCommands().map((c) => [c.name, c.source, c.sourceInfo.scope])") == [
            ["run", "extension", "temporary"]
        ]
        shell = "const t = use.createBashTool(ctx.cwd, {spawnHook: (c) => ({...c, env: {...c.env, WORD: 'a b'}})});"
        shell += "const r = await t.execute('1', {command: 'echo $WORD'}); return [t.name, r.content[0].text]"
        assert run(shell) == ["bash", "a b\n"]
        failing = "try { await use.createBashTool(ctx.cwd).execute('1', {command: 'exit 3'}); } catch (e) { return e.message }"
        assert "code 3" in run(failing)
        program_run = "const r = await pi.exec('sh', ['-c', 'echo out; echo err >&2; exit 4']); return r"
        assert run(program_run) == {"stdout": "out\n", "stderr": "err\n", "code": 4, "killed": False}
        assert run("return (await pi.exec('sleep', ['9'], {timeout: 50})).killed") is True
        assert run("return (await pi.exec('/no/such/program', [])).code") == 1


def test_models_are_called_with_the_context_that_extensions_leave(tmp_path: Path) -> None:
    with ModelServer("Answer.", "Completed.") as server:
        path = script(tmp_path, RUN)
        settings = {"extensionHost": {"node": node(), "loadTimeoutMs": 60_000}}
        args = ["--model", "mock/m1", "-e", str(path)]
        with Agent(tmp_path, offline=False, models=server.models, settings=settings, args=args) as program:
            run = Runner(program)
            program.prompt("hello")
            request = server.asked[0]
            assert "<house_rules>\nBe kind.\n</house_rules>" in json.dumps(request["system"]).replace("\\n", "\n")
            assert "added" in json.dumps(request["messages"][-1])
            calling = """
                const model = ctx.modelRegistry.find("mock", "m1");
                const auth = await ctx.modelRegistry.getApiKeyAndHeaders(model);
                const messages = use.convertToLlm([{ role: "custom", customType: "x", content: "ask", timestamp: 1 }]);
                const m = await use.complete(model, { systemPrompt: "S", messages }, { maxTokens: 77 });
                return [ctx.model.id, model.contextWindow, auth, m.role, m.content, m.stopReason,
                    ctx.modelRegistry.getAvailable().length, ctx.modelRegistry.hasConfiguredAuth(model)];
            """
            assert run(" ".join(calling.split())) == [
                *("m1", 200_000, {"ok": True, "apiKey": "no-secret"}, "assistant"),
                *([{"type": "text", "text": "Completed."}], "stop"),
                *(1, True),
            ]
            summing = """
                const entries = ctx.sessionManager.getBranch();
                const streamFn = ctx.modelRegistry.getProvider("mock").streamSimple;
                const one = await use.generateBranchSummary(entries, { model: ctx.model, streamFn, customInstructions: "short" });
                return [one.summary, one.readFiles];
            """
            assert run(" ".join(summing.split())) == ["Completed.", []]
            assert "short" in json.dumps(server.asked[2]["messages"])
            assert server.asked[1]["max_tokens"] == 77
            assert server.asked[1]["messages"][0]["content"] == [
                {"type": "text", "text": "ask", "cache_control": {"type": "ephemeral"}}
            ]


def test_dialogs_sessions_and_messages(tmp_path: Path) -> None:
    with agent(tmp_path, RUN) as program:
        run = Runner(program)
        program.prompt("hello")
        withdrawn = "const c = new AbortController(); setTimeout(() => c.abort(), 50);"
        withdrawn += "return [await ctx.ui.select('t', ['a'], {signal: c.signal}) ?? null, await ctx.ui.confirm('t', 'm', {timeout: 20})]"
        assert run(withdrawn) == [None, False]
        screens = "return [await ctx.ui.custom(() => { throw 1 }) === undefined, ctx.ui.setTheme('x'), ctx.ui.getEditorText(),"
        screens += (
            "ctx.ui.getAllThemes(), typeof ctx.ui.onTerminalInput(() => {}), ctx.ui.setFooter(() => {}) === undefined]"
        )
        assert run(screens) == [
            *(True, {"success": False, "error": "Theme switching not supported in RPC mode"}, ""),
            *([], "function", True),
        ]
        custom = "pi.sendMessage({customType: 'note', content: 'text', display: true, details: {a: 1}}); return 1"
        run(custom)
        assert [
            one["message"]["content"]
            for one in of("message_end", program.records)
            if one["message"]["role"] == "custom"
        ] == ["text"]
        fresh = """
            const old = ctx.sessionManager.getSessionId();
            const result = await ctx.newSession({
                setup: async (s) => { s.appendMessage({ role: "user", content: [{ type: "text", text: "from before" }], timestamp: 5 }); },
                withSession: async (next) => {
                    const s = next.sessionManager;
                    const messages = s.getEntries().filter((e) => e.type === "message").length;
                    next.ui.notify(JSON.stringify([s.getSessionId() !== old, messages]));
                },
            });
        """
        assert run(" ".join(fresh.split())) == [True, 1]
        stale = program.until("extension_error")[-1]  # `run` shows what a program returns in the session that was left
        assert stale["error"].startswith("This extension ctx is stale")
        loading = "try { pi.compactNow() } catch (e) { return 'a missing method fails alone' }"
        assert run(loading) == "a missing method fails alone"
        stats = "return [use.SettingsManager.create(ctx.cwd).getCompactionSettings().enabled, (await use.SessionManager.listAll()).length > 0]"
        assert run(stats) == [True, True]


STREAMING = """
    import { createAssistantMessageEventStream } from "@earendil-works/pi-ai";

    export default function (pi: any) {
        pi.registerProvider("mine", {
            baseUrl: "http://127.0.0.1:1", apiKey: "K", api: "my-api",
            models: [{ id: "m", name: "M", reasoning: false, input: ["text"], contextWindow: 1000, maxTokens: 100,
                cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 } }],
            streamSimple(model: any, context: any, options: any) {
                const stream = createAssistantMessageEventStream();
                const last = context.messages.at(-1);
                const partial: any = { role: "assistant", content: [], usage: { input: 3, output: 4, cacheRead: 0, cacheWrite: 0 } };
                queueMicrotask(() => {
                    if (last.role === "toolResult") {
                        const text = `${model.id} ${context.systemPrompt.length > 10} ${last.content[0].text.trim()}`;
                        stream.push({ type: "text_delta", contentIndex: 0, delta: text, partial });
                        stream.push({ type: "done", reason: "stop", message: partial });
                    } else {
                        const toolCall = { type: "toolCall", id: "c1", name: "bash", arguments: { command: "echo hi" } };
                        stream.push({ type: "toolcall_end", contentIndex: 0, toolCall, partial });
                        stream.push({ type: "done", reason: "toolUse", message: partial });
                    }
                });
                return stream;
            },
        });
    }
    """


def test_a_provider_answers_itself(tmp_path: Path) -> None:
    path = script(tmp_path, STREAMING)
    settings = {"extensionHost": {"node": node(), "loadTimeoutMs": 60_000}}
    with Agent(tmp_path, offline=False, settings=settings, args=["--model", "mine/m", "-e", str(path)]) as program:
        events = program.prompt("go")
        answers = [one["message"] for one in of("message_end", events) if one["message"]["role"] == "assistant"]
        assert [block["type"] for block in answers[0]["content"]] == ["toolCall"]
        assert answers[1]["content"] == [{"type": "text", "text": "m True hi".replace("True", "true")}]
        assert (answers[1]["usage"]["input"], answers[1]["usage"]["output"]) == (3, 4)

// The object `pi` that the factory of an extension receives.

import { Bus } from "./bus.mjs";
import { commandContext, context } from "./context.mjs";
import { handlerTarget, isKnownEvent } from "./events.mjs";
import { lazy } from "./lazy.mjs";
import { modelKey, plainSourceInfo, userMessage } from "./session_values.mjs";
import { toolSpec, toolTarget } from "./tools.mjs";

const programs = lazy("./programs.mjs");
const providers = lazy("./providers.mjs");
const renderers = lazy("./renderers.mjs");
const TOO_EARLY =
  "Extension runtime not initialized. Action methods cannot be called during extension loading.";

/** Returns `pi`, and a function to call when the extension is loaded. */
export function createApi(extension) {
  const targets = new Map(); // registrations by kind and name
  const refreshing = []; // providers whose models are asked for after the start of the session

  const register = (kind, name, spec, run) => {
    unregister(kind, name);
    targets.set(`${kind}:${name}`, extension.register(kind, name, spec, run));
  };
  const unregister = (kind, name) => {
    const target = targets.get(`${kind}:${name}`);
    if (target !== undefined) extension.unregister(target);
    targets.delete(`${kind}:${name}`);
  };
  const running = () => {
    if (!extension.ready) throw new Error(TOO_EARLY);
    return extension;
  };
  const registerProvider = (first, second) => {
    const again = () => registerProvider(first, second);
    const { name, spec, run, refresh } = providers().providerRegistration(extension, first, second, again);
    register("provider", name, spec, run);
    if (refresh) refreshing.push({ name, refresh });
  };

  const pi = {
    // Registrations

    on(event, handler) {
      if (!isKnownEvent(event)) return () => {};
      const target = extension.register("handler", event, {}, handlerTarget(extension, event, handler));
      return () => extension.unregister(target);
    },
    registerTool(tool) {
      register("tool", tool.name, toolSpec(tool), toolTarget(extension, tool));
      unregister("tool_renderer", tool.name);
      const parts = [...(tool.renderCall ? ["call"] : []), ...(tool.renderResult ? ["result"] : [])];
      if (parts.length) register("tool_renderer", tool.name, { parts }, renderers().toolRendererTarget(extension, tool));
    },
    registerCommand(name, options) {
      const handler = options.handler;
      const spec = options.description === undefined ? {} : { description: options.description };
      register("command", name, spec, async ({ args }, call) => {
        await handler(args ?? "", commandContext(extension, call));
      });
      unregister("completions", name);
      if (options.getArgumentCompletions) {
        register("completions", name, {}, async ({ prefix }) => (await options.getArgumentCompletions(prefix)) ?? null);
      }
    },
    registerShortcut(key, options) {
      const spec = options.description === undefined ? {} : { description: options.description };
      register("shortcut", key, spec, async (_, call) => {
        await options.handler(context(extension, call));
      });
    },
    registerFlag(name, options) {
      let value = extension.flags[name];
      if (options.type === "string" && value === true) value = extension.following[name];
      extension.flags[name] = typeof value === options.type ? value : options.default;
      register("flag", name, { type: options.type, default: options.default, description: options.description });
    },
    getFlag: (name) => (targets.has(`flag:${name}`) ? extension.flags[name] : undefined),
    registerMessageRenderer(type, render) {
      register("message_renderer", type, {}, renderers().messageRendererTarget(render));
    },
    registerEntryRenderer(type, render) {
      register("entry_renderer", type, {}, renderers().entryRendererTarget(render));
    },
    registerMarkdownTransformer() {},
    registerToolRenderer() {},
    registerProvider(first, second) {
      registerProvider(first, second);
      if (extension.ready) refreshModels();
    },
    unregisterProvider(name) {
      unregister("provider", name);
    },

    // Actions

    sendMessage(message, options) {
      const params = { message, triggerTurn: options?.triggerTurn, deliverAs: options?.deliverAs };
      running().tell("send_message", params);
    },
    sendUserMessage(content, options) {
      running().tell("send_user_message", userMessage(content, options));
    },
    appendEntry(customType, data) {
      running().tell("append_entry", { customType, data });
    },
    setSessionName(name) {
      running().tell("set_session_name", { name });
    },
    getSessionName: () => running().fact("sessionName") ?? undefined,
    setLabel(entryId, label) {
      running().tell("set_label", { entryId, label });
    },
    exec(command, args, options) {
      return programs().runProgram(command, args ?? [], { cwd: extension.knownFact("cwd"), ...options });
    },
    getActiveTools: () => [...(running().fact("activeTools") ?? [])],
    setActiveTools(names) {
      running().tell("set_active_tools", { names: [...names] });
    },
    getAllTools: () => running().read("get_all_tools"),
    getCommands: () => running().read("get_commands").map(plainSourceInfo),
    setModel: (model) => running().act("set_model", modelKey(model)),
    getThinkingLevel: () => running().fact("thinkingLevel"),
    setThinkingLevel(level) {
      running().tell("set_thinking_level", { level });
    },
    events: new Bus(extension),
  };

  const refreshModels = async () => {
    for (const { name, refresh } of refreshing.splice(0)) {
      try {
        const registration = await refresh(new AbortController().signal);
        if (!extension.ended) register("provider", name, registration.spec, registration.run);
      } catch (error) {
        extension.send({ type: "trouble", error: String(error?.message ?? error), event: "refresh_models" });
      }
    }
  };

  return { pi, loaded: () => setImmediate(refreshModels) };
}

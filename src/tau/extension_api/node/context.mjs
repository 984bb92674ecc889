// The context (`ctx`) of handlers, tools and commands.

import { lazy } from "./lazy.mjs";
import { currentCall } from "./scope.mjs";
import { userMessage } from "./session_values.mjs";

const models = lazy("./model_registry.mjs");
const sessions = lazy("./session_manager.mjs");
const userInterface = lazy("./ui.mjs");
const sessionSetup = lazy("./session_setup.mjs");

/** The `ctx` of every call. It stays usable after the call, for example in timers. */
export function context(extension, call) {
  const ctx = Object.defineProperties({}, properties(extension, call));
  return Object.assign(ctx, {
    isIdle: () => extension.fact("isIdle"),
    isProjectTrusted: () => extension.fact("projectTrusted") ?? true,
    abort: () => extension.tell("abort"),
    hasPendingMessages: () => extension.fact("hasPendingMessages"),
    shutdown: () => extension.tell("shutdown"),
    getContextUsage: () => extension.read("get_context_usage") ?? undefined,
    compact: (options) => compact(extension, options),
    getSystemPrompt: () => extension.read("get_system_prompt"),
  });
}

function properties(extension, call) {
  const get = (read) => ({ get: read, enumerable: true, configurable: true });
  let shownUi;
  return {
    ui: get(() => (shownUi ??= userInterface().ui(extension))),
    mode: get(() => extension.knownFact("mode")),
    hasUI: get(() => extension.knownFact("hasUI") ?? false),
    cwd: get(() => extension.knownFact("cwd")),
    sessionManager: get(() => sessions().sessionManager(extension)),
    modelRegistry: get(() => models().modelRegistry(extension)),
    model: get(() => extension.fact("model") ?? undefined),
    scopedModels: get(() => extension.fact("scopedModels") ?? []),
    thinkingLevel: get(() => extension.fact("thinkingLevel")),
    signal: get(() => (call && !extension.fact("isIdle") ? call.signal : undefined)),
  };
}

function compact(extension, options = {}) {
  const work = extension.act("compact", { customInstructions: options.customInstructions });
  work.then(
    (result) => options.onComplete?.(result),
    (error) => {
      if (options.onError) options.onError(error);
      else extension.send({ type: "trouble", error: error.message, event: "compact" });
    },
  );
}

/** The `ctx` of a command, which can switch sessions. */
export function commandContext(extension, call) {
  const ctx = context(extension, call);
  const afterSwitch = async (result, options) => {
    const next = extension.latest;
    const work = () => options.withSession(replacedContext(next, call));
    if (!result.cancelled && options?.withSession) await currentCall.run({ extension: next, call }, work);
    return { cancelled: result.cancelled };
  };
  return Object.assign(ctx, {
    getSystemPromptOptions: () => extension.read("get_system_prompt_options"),
    waitForIdle: () => extension.act("wait_for_idle").then(() => undefined),
    async newSession(options) {
      const result = await extension.act("new_session", { parentSession: options?.parentSession });
      if (!result.cancelled && options?.setup) await options.setup(sessionSetup().writableSession(extension.latest));
      return afterSwitch(result, options);
    },
    async fork(entryId, options) {
      const result = await extension.act("fork", { entryId, position: options?.position });
      return afterSwitch(result, options);
    },
    async navigateTree(targetId, options = {}) {
      const { summarize, customInstructions, replaceInstructions, label } = options;
      const params = { targetId, summarize, customInstructions, replaceInstructions, label };
      const result = await extension.act("navigate_tree", params);
      return { cancelled: result.cancelled };
    },
    async switchSession(sessionPath, options) {
      return afterSwitch(await extension.act("switch_session", { sessionPath }), options);
    },
    reload: () => extension.act("reload").then(() => undefined),
  });
}

function replacedContext(extension, call) {
  return Object.assign(commandContext(extension, call), {
    async sendMessage(message, options) {
      const params = { message, triggerTurn: options?.triggerTurn, deliverAs: options?.deliverAs };
      await extension.act("send_message", params);
    },
    async sendUserMessage(content, options) {
      await extension.act("send_user_message", userMessage(content, options));
    },
  });
}

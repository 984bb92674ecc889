// Functions of the module pi-coding-agent: tools, appearance, and a sentence for what tau does not have.

import { spawnSync } from "node:child_process";
import { extname, resolve } from "node:path";
import { currentExtension } from "./current.mjs";
import { agentDir } from "./folders.mjs";
import { getKeybindings } from "./keybindings.mjs";
import { currentTheme } from "./theme.mjs";

export const VERSION = "0.87.1"; // the version of pi whose extension API this is
export const getAgentDir = agentDir;
export const getPackageDir = () => import.meta.dirname;
export const getDocsPath = getPackageDir;
export const getExamplesPath = getPackageDir;
export const getReadmePath = getPackageDir;

// Files

const queues = new Map();

/** Runs `work` after all earlier work on the same file. */
export async function withFileMutationQueue(path, work) {
  const key = resolve(path);
  const before = queues.get(key) ?? Promise.resolve();
  const mine = before.then(work, work);
  const settled = mine.catch(() => {});
  queues.set(key, settled);
  try {
    return await mine;
  } finally {
    if (queues.get(key) === settled) queues.delete(key);
  }
}

// Appearance

const fg = (role) => (text) => currentTheme().fg(role, text);

export function getMarkdownTheme() {
  const theme = currentTheme();
  return {
    heading: fg("mdHeading"),
    link: fg("mdLink"),
    linkUrl: fg("mdLinkUrl"),
    code: fg("mdCode"),
    codeBlock: fg("mdCodeBlock"),
    codeBlockBorder: fg("mdCodeBlockBorder"),
    quote: fg("mdQuote"),
    quoteBorder: fg("mdQuoteBorder"),
    hr: fg("mdHr"),
    listBullet: fg("mdListBullet"),
    bold: (text) => theme.bold(text),
    italic: (text) => theme.italic(text),
    underline: (text) => theme.underline(text),
    strikethrough: (text) => theme.strikethrough(text),
    highlightCode: (code) => code.split("\n").map(fg("mdCodeBlock")),
  };
}

export function getSelectListTheme() {
  return {
    selectedPrefix: fg("accent"),
    selectedText: fg("accent"),
    description: fg("muted"),
    scrollInfo: fg("muted"),
    noMatch: fg("muted"),
  };
}

export function getSettingsListTheme() {
  return {
    label: (text, selected) => (selected ? fg("accent")(text) : text),
    value: (text, selected) => fg(selected ? "accent" : "muted")(text),
    description: fg("dim"),
    cursor: fg("accent")("→ "),
    hint: fg("dim"),
  };
}

export function initTheme() {}

export function keyText(action) {
  return getKeybindings().getKeys(action).join("/");
}

export function keyHint(action, description) {
  return fg("dim")(keyText(action)) + fg("muted")(` ${description}`);
}

export function rawKeyHint(key, description) {
  return fg("dim")(key) + fg("muted")(` ${description}`);
}

export function renderDiff(diff) {
  const roles = { "+": "toolDiffAdded", "-": "toolDiffRemoved" };
  return diff
    .split("\n")
    .map((line) => fg(roles[line[0]] ?? "toolDiffContext")(line))
    .join("\n");
}

export function highlightCode(code) {
  return code.split("\n").map(fg("mdCodeBlock"));
}

const LANGUAGES = {
  ts: "typescript", tsx: "typescript", js: "javascript", jsx: "javascript", mjs: "javascript", cjs: "javascript",
  py: "python", rb: "ruby", rs: "rust", go: "go", java: "java", kt: "kotlin", c: "c", h: "c", cpp: "cpp", hpp: "cpp",
  cs: "csharp", php: "php", swift: "swift", sh: "bash", bash: "bash", zsh: "bash", sql: "sql", html: "html", css: "css",
  scss: "scss", json: "json", yaml: "yaml", yml: "yaml", toml: "toml", xml: "xml", md: "markdown", lua: "lua", r: "r",
};

export function getLanguageFromPath(path) {
  return LANGUAGES[extname(path).slice(1).toLowerCase()];
}

export function truncateToVisualLines(text, maxLines) {
  const lines = text.split("\n");
  return { visualLines: lines.slice(-maxLines), skippedCount: Math.max(0, lines.length - maxLines) };
}

export async function copyToClipboard(text) {
  for (const [command, ...args] of [["pbcopy"], ["wl-copy"], ["xclip", "-selection", "clipboard"]]) {
    if (spawnSync(command, args, { input: text, stdio: ["pipe", "ignore", "ignore"], timeout: 2000 }).status === 0) return true;
  }
  return false;
}

// Other parts

export function createEventBus() {
  const handlers = new Map();
  return {
    emit: (channel, data) => [...(handlers.get(channel) ?? [])].forEach((handler) => handler(data)),
    on(channel, handler) {
      handlers.set(channel, [...(handlers.get(channel) ?? []), handler]);
      return () => handlers.set(channel, (handlers.get(channel) ?? []).filter((one) => one !== handler));
    },
    clear: () => handlers.clear(),
  };
}

export function createSyntheticSourceInfo(path, { source, scope = "temporary", origin = "top-level", baseDir }) {
  return { path, source, scope, origin, ...(baseDir ? { baseDir } : {}) };
}

export function parseSkillBlock(text) {
  const found = text.match(/^<skill name="([^"]+)" location="([^"]+)">\n([\s\S]*?)\n<\/skill>(?:\n\n([\s\S]+))?$/);
  return found ? { name: found[1], location: found[2], content: found[3], userMessage: found[4]?.trim() || undefined } : null;
}

export const DEFAULT_COMPACTION_SETTINGS = { enabled: true, reserveTokens: 16384, keepRecentTokens: 20000 };

export function shouldCompact(tokens, contextWindow, settings) {
  return settings.enabled && tokens > contextWindow - settings.reserveTokens;
}

/** Whether there are credentials; stored logins stay with tau. */
export class AuthStorage {
  static create() {
    return new AuthStorage();
  }

  async getApiKey(provider) {
    const found = await currentExtension().act("get_api_key", { provider });
    return found.ok ? found.apiKey : undefined;
  }

  hasAuth(provider) {
    return currentExtension().read("get_provider_auth", { provider }).configured;
  }

  has(provider) {
    return this.hasAuth(provider);
  }

  get() {
    return undefined;
  }

  list() {
    return [];
  }

  reload() {}
}

export function readStoredCredential() {
  throw new Error("Credentials are not available to extensions; use ctx.modelRegistry.getApiKeyAndHeaders");
}

// What needs pi itself

const NO_AGENT = 'tau does not run agents inside extensions; start "pi --mode rpc" instead';

function refuse(name, reason) {
  return () => {
    throw new Error(refusal(name, reason));
  };
}

function refusal(name, reason) {
  return reason === NO_AGENT ? reason : `${name}: ${reason}`;
}

function refusingClass(name, reason) {
  return class {
    static create() {
      throw new Error(refusal(name, reason));
    }
    static inMemory() {
      throw new Error(refusal(name, reason));
    }
    constructor() {
      throw new Error(refusal(name, reason));
    }
  };
}

const NO_SCREEN = "tau does not give its screen to extensions";
const NOT_HERE = "not available in tau";

export const createAgentSession = refuse("createAgentSession", NO_AGENT);
export const createAgentSessionFromServices = refuse("createAgentSessionFromServices", NO_AGENT);
export const createAgentSessionRuntime = refuse("createAgentSessionRuntime", NO_AGENT);
export const createAgentSessionServices = refuse("createAgentSessionServices", NO_AGENT);
export const AgentSession = refusingClass("AgentSession", NO_AGENT);
export const AgentSessionRuntime = refusingClass("AgentSessionRuntime", NO_AGENT);
export const DefaultResourceLoader = refusingClass("DefaultResourceLoader", NO_AGENT);
export const createExtensionRuntime = refuse("createExtensionRuntime", NO_AGENT);
export const discoverAndLoadExtensions = refuse("discoverAndLoadExtensions", NO_AGENT);
export const ExtensionRunner = refusingClass("ExtensionRunner", NO_AGENT);
export const ModelRuntime = refusingClass("ModelRuntime", "use ctx.modelRegistry");
export const ModelRegistry = refusingClass("ModelRegistry", "use ctx.modelRegistry");
export const DefaultPackageManager = refusingClass("DefaultPackageManager", NOT_HERE);
export const ProjectTrustStore = refusingClass("ProjectTrustStore", NOT_HERE);
export const InteractiveMode = refusingClass("InteractiveMode", NO_SCREEN);
export const RpcClient = refusingClass("RpcClient", 'start "pi --mode rpc" as a program');
export const runPrintMode = refuse("runPrintMode", NO_AGENT);
export const runRpcMode = refuse("runRpcMode", NO_AGENT);
export const main = refuse("main", NO_AGENT);
export const compact = refuse("compact", "use ctx.compact");
export const ArminComponent = refusingClass("ArminComponent", NO_SCREEN);
export const AssistantMessageComponent = refusingClass("AssistantMessageComponent", NO_SCREEN);
export const BashExecutionComponent = refusingClass("BashExecutionComponent", NO_SCREEN);
export const BranchSummaryMessageComponent = refusingClass("BranchSummaryMessageComponent", NO_SCREEN);
export const CompactionSummaryMessageComponent = refusingClass("CompactionSummaryMessageComponent", NO_SCREEN);
export const CustomMessageComponent = refusingClass("CustomMessageComponent", NO_SCREEN);
export const ExtensionEditorComponent = refusingClass("ExtensionEditorComponent", NO_SCREEN);
export const ExtensionInputComponent = refusingClass("ExtensionInputComponent", NO_SCREEN);
export const ExtensionSelectorComponent = refusingClass("ExtensionSelectorComponent", NO_SCREEN);
export const FooterComponent = refusingClass("FooterComponent", NO_SCREEN);
export const LoginDialogComponent = refusingClass("LoginDialogComponent", NO_SCREEN);
export const ModelSelectorComponent = refusingClass("ModelSelectorComponent", NO_SCREEN);
export const OAuthSelectorComponent = refusingClass("OAuthSelectorComponent", NO_SCREEN);
export const SessionSelectorComponent = refusingClass("SessionSelectorComponent", NO_SCREEN);
export const SettingsSelectorComponent = refusingClass("SettingsSelectorComponent", NO_SCREEN);
export const ShowImagesSelectorComponent = refusingClass("ShowImagesSelectorComponent", NO_SCREEN);
export const SkillInvocationMessageComponent = refusingClass("SkillInvocationMessageComponent", NO_SCREEN);
export const ThemeSelectorComponent = refusingClass("ThemeSelectorComponent", NO_SCREEN);
export const ThinkingSelectorComponent = refusingClass("ThinkingSelectorComponent", NO_SCREEN);
export const ToolExecutionComponent = refusingClass("ToolExecutionComponent", NO_SCREEN);
export const TreeSelectorComponent = refusingClass("TreeSelectorComponent", NO_SCREEN);
export const UserMessageComponent = refusingClass("UserMessageComponent", NO_SCREEN);
export const UserMessageSelectorComponent = refusingClass("UserMessageSelectorComponent", NO_SCREEN);

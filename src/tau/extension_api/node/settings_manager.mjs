// The settings, for reading. Extensions cannot change them; what they set is kept in memory.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { agentDir as defaultAgentDir, CONFIG_DIR_NAME } from "./folders.mjs";

const DEFAULTS = {
  compaction: { enabled: true, reserveTokens: 16384, keepRecentTokens: 20000 },
  retry: { enabled: true, maxRetries: 3, baseDelayMs: 2000 },
  steeringMode: "one-at-a-time",
  followUpMode: "one-at-a-time",
  transport: "auto",
  doubleEscapeAction: "tree",
  hideThinkingBlock: false,
  quietStartup: false,
  enableSkillCommands: true,
  packages: [],
  extensions: [],
  skills: [],
  prompts: [],
  themes: [],
};

function readSettings(file) {
  try {
    return existsSync(file) ? JSON.parse(withoutComments(readFileSync(file, "utf8"))) : {};
  } catch {
    return {};
  }
}

function withoutComments(text) {
  return text.replace(/("(?:[^"\\]|\\.)*")|\/\/[^\n]*|\/\*[\s\S]*?\*\//g, (_, quoted) => quoted ?? "").replace(/,(\s*[}\]])/g, "$1");
}

function merged(...all) {
  const out = {};
  for (const one of all) {
    for (const [name, value] of Object.entries(one)) {
      const isObject = (given) => given !== null && typeof given === "object" && !Array.isArray(given);
      out[name] = isObject(value) && isObject(out[name]) ? { ...out[name], ...value } : value;
    }
  }
  return out;
}

/** Getters and setters of single settings: getTheme() reads `theme`, setTheme() keeps a value in memory. */
function accessor(manager, name) {
  const found = /^(get|set|is)([A-Z]\w*)$/.exec(name);
  if (!found) return undefined;
  const words = found[2].replace(/(?:Paths|Settings|Enabled)$/, "");
  const setting = words[0].toLowerCase() + words.slice(1);
  if (found[1] === "set") return (value) => manager.applyOverrides({ [setting]: value });
  return () => {
    const known = manager.all();
    const names = { shellCommandPrefix: "shellCommandPrefix", extension: "extensions", skill: "skills", promptTemplate: "prompts", theme: "theme" };
    const value = known[names[setting] ?? setting];
    return /Enabled$/.test(name) && value && typeof value === "object" ? value.enabled : value;
  };
}

export class SettingsManager {
  #files;
  #own;

  constructor(files, own = {}) {
    this.#files = files;
    this.#own = own;
    return new Proxy(this, {
      get(manager, name) {
        if (name in manager || typeof name === "symbol") {
          const value = manager[name];
          return typeof value === "function" ? value.bind(manager) : value;
        }
        return accessor(manager, name);
      },
    });
  }

  static create(cwd = process.cwd(), agentDir = defaultAgentDir(), options = {}) {
    const project = options.projectTrusted === false ? undefined : join(cwd, CONFIG_DIR_NAME, "settings.json");
    return new SettingsManager({ global: join(agentDir, "settings.json"), project });
  }

  static inMemory(settings = {}) {
    return new SettingsManager({}, settings);
  }

  all() {
    return merged(DEFAULTS, this.getGlobalSettings(), this.getProjectSettings(), this.#own);
  }

  getGlobalSettings() {
    return this.#files.global ? readSettings(this.#files.global) : structuredClone(this.#own);
  }

  getProjectSettings() {
    return this.#files.project ? readSettings(this.#files.project) : {};
  }

  applyOverrides(settings) {
    this.#own = merged(this.#own, settings);
  }

  async reload() {}
  async flush() {}

  drainErrors() {
    return [];
  }

  getCompactionSettings() {
    return this.all().compaction;
  }

  getCompactionEnabled() {
    return this.all().compaction.enabled;
  }

  getRetrySettings() {
    return this.all().retry;
  }

  getShellPath() {
    return this.all().shellPath;
  }

  getThemePaths() {
    return this.all().themes;
  }
}

// Session files of tau and pi, read and written without the running session.

import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { basename, join, resolve } from "node:path";
import { agentDir } from "./folders.mjs";
import { contextEntries, contextOf, entryMessages, treeOf } from "./session_context.mjs";

export const CURRENT_SESSION_VERSION = 3;

/** The entries of a session file, with its header first. Lines that are no JSON are left out. */
export function parseSessionEntries(content) {
  return content.split("\n").flatMap((line) => {
    try {
      return line.trim() ? [JSON.parse(line)] : [];
    } catch {
      return [];
    }
  });
}

export function defaultSessionDir(cwd) {
  const name = `--${resolve(cwd).replace(/^[/\\]/, "").replace(/[/\\:]/g, "-")}--`;
  return join(agentDir(), "sessions", name);
}

export function branchOf(entries, leafId) {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const path = [];
  const start = leafId === undefined ? entries.at(-1)?.id : leafId;
  for (let entry = byId.get(start); entry; entry = byId.get(entry.parentId)) path.push(entry);
  return path.reverse();
}

export function buildSessionContext(entries, leafId) {
  return contextOf(branchOf(entries.filter((entry) => entry.type !== "session"), leafId));
}

export function buildContextEntries(entries, leafId) {
  return contextEntries(branchOf(entries.filter((entry) => entry.type !== "session"), leafId));
}

export const sessionEntryToContextMessages = entryMessages;

export function getLatestCompactionEntry(entries) {
  return entries.findLast((entry) => entry.type === "compaction") ?? null;
}

/** A session in a file or in memory. It is not the one that is running: `ctx.sessionManager` is. */
export class SessionManager {
  #header;
  #entries;
  #file;
  #dir;
  #leafId;

  constructor(header, entries, file, dir) {
    this.#header = header;
    this.#entries = entries;
    this.#file = file;
    this.#dir = dir ?? "";
    this.#leafId = entries.at(-1)?.id ?? null;
  }

  static create(cwd, sessionDir, options) {
    const header = newHeader(cwd, options);
    const dir = sessionDir ?? defaultSessionDir(cwd);
    const stamp = header.timestamp.replace(/[:.]/g, "-");
    return new SessionManager(header, [], join(dir, `${stamp}_${header.id}.jsonl`), dir);
  }

  static inMemory(cwd = process.cwd(), options = undefined, entries = []) {
    return new SessionManager(newHeader(cwd, options), entries.filter((entry) => entry.type !== "session"), undefined, "");
  }

  static open(path, sessionDir) {
    const all = existsSync(path) ? parseSessionEntries(readFileSync(path, "utf8")) : [];
    const header = all.find((entry) => entry.type === "session") ?? newHeader(process.cwd());
    return new SessionManager(header, all.filter((entry) => entry !== header), resolve(path), sessionDir ?? resolve(path, ".."));
  }

  static continueRecent(cwd, sessionDir) {
    const dir = sessionDir ?? defaultSessionDir(cwd);
    const [newest] = sessionFiles(dir).sort((one, other) => statSync(other).mtimeMs - statSync(one).mtimeMs);
    return newest ? SessionManager.open(newest, dir) : SessionManager.create(cwd, dir);
  }

  static async list(cwd, sessionDir) {
    return listed(sessionFiles(sessionDir ?? defaultSessionDir(cwd)));
  }

  static async listAll(sessionDir) {
    const top = typeof sessionDir === "string" ? sessionDir : join(agentDir(), "sessions");
    const folders = existsSync(top) ? readdirSync(top, { withFileTypes: true }).filter((entry) => entry.isDirectory()) : [];
    return listed([...sessionFiles(top), ...folders.flatMap((entry) => sessionFiles(join(top, entry.name)))]);
  }

  static findById(cwd, id, sessionDir) {
    return sessionFiles(sessionDir ?? defaultSessionDir(cwd)).find((file) => basename(file).includes(id));
  }

  isPersisted() {
    return this.#file !== undefined;
  }

  getCwd() {
    return this.#header.cwd;
  }

  getSessionDir() {
    return this.#dir;
  }

  getSessionId() {
    return this.#header.id;
  }

  getSessionFile() {
    return this.#file;
  }

  getHeader() {
    return this.#header;
  }

  getEntries() {
    return [...this.#entries];
  }

  getEntry(id) {
    return this.#entries.find((entry) => entry.id === id);
  }

  getChildren(id) {
    return this.#entries.filter((entry) => entry.parentId === id);
  }

  getLeafId() {
    return this.#leafId;
  }

  getLeafEntry() {
    return this.getEntry(this.#leafId);
  }

  getBranch(fromId) {
    return branchOf(this.#entries, fromId ?? this.#leafId);
  }

  getLabel(id) {
    return this.#entries.findLast((entry) => entry.type === "label" && entry.targetId === id)?.label;
  }

  getSessionName() {
    return this.#entries.findLast((entry) => entry.type === "session_info")?.name;
  }

  getTree() {
    return treeOf(this.#entries);
  }

  buildContextEntries() {
    return contextEntries(this.getBranch());
  }

  buildSessionContext() {
    return contextOf(this.getBranch());
  }

  branch(id) {
    this.#leafId = id;
  }

  resetLeaf() {
    this.#leafId = null;
  }

  #append(fields) {
    const entry = { ...fields, id: randomUUID().slice(0, 8), parentId: this.#leafId, timestamp: new Date().toISOString() };
    const { type, id, parentId, timestamp, ...rest } = entry;
    const ordered = { type, id, parentId, timestamp, ...rest };
    this.#entries.push(ordered);
    this.#leafId = id;
    this.#write(ordered);
    return id;
  }

  #write(entry) {
    if (!this.#file) return;
    if (existsSync(this.#file)) appendFileSync(this.#file, `${JSON.stringify(entry)}\n`);
    else {
      mkdirSync(resolve(this.#file, ".."), { recursive: true });
      const lines = [this.#header, ...this.#entries].map((one) => JSON.stringify(one));
      writeFileSync(this.#file, `${lines.join("\n")}\n`);
    }
  }

  appendMessage(message) {
    return this.#append({ type: "message", message });
  }

  appendThinkingLevelChange(thinkingLevel) {
    return this.#append({ type: "thinking_level_change", thinkingLevel });
  }

  appendModelChange(provider, modelId) {
    return this.#append({ type: "model_change", provider, modelId });
  }

  appendCompaction(summary, firstKeptEntryId, tokensBefore, details, fromHook) {
    return this.#append({ type: "compaction", summary, firstKeptEntryId, tokensBefore, details, fromHook });
  }

  appendCustomEntry(customType, data) {
    return this.#append({ type: "custom", customType, data });
  }

  appendCustomMessageEntry(customType, content, display, details) {
    return this.#append({ type: "custom_message", customType, content, display, details });
  }

  appendSessionInfo(name) {
    return this.#append({ type: "session_info", name });
  }

  appendLabelChange(targetId, label) {
    return this.#append({ type: "label", targetId, label });
  }

  branchWithSummary(branchFromId, summary, details, fromHook) {
    this.#leafId = branchFromId;
    return this.#append({ type: "branch_summary", fromId: branchFromId ?? "root", summary, details, fromHook });
  }
}

function newHeader(cwd, options) {
  const header = { type: "session", version: CURRENT_SESSION_VERSION, id: options?.id ?? randomUUID() };
  const parent = options?.parentSession ? { parentSession: options.parentSession } : {};
  return { ...header, timestamp: new Date().toISOString(), cwd, ...parent };
}

function sessionFiles(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => join(folder, name));
}

function listed(files) {
  return files.map(sessionInfo).filter(Boolean).sort((one, other) => other.modified - one.modified);
}

function sessionInfo(path) {
  try {
    const all = parseSessionEntries(readFileSync(path, "utf8"));
    const header = all.find((entry) => entry.type === "session");
    if (!header) return undefined;
    const messages = all.filter((entry) => entry.type === "message").map((entry) => entry.message);
    const text = ({ content }) => (typeof content === "string" ? content : (content ?? []).map((block) => block.text ?? "").join(" "));
    return {
      path,
      id: header.id,
      cwd: header.cwd ?? "",
      name: all.findLast((entry) => entry.type === "session_info")?.name,
      parentSessionPath: header.parentSession,
      created: new Date(header.timestamp),
      modified: statSync(path).mtime,
      messageCount: messages.length,
      firstMessage: text(messages.find((message) => message.role === "user") ?? {}) || "(no messages)",
      allMessagesText: messages.filter((message) => ["user", "assistant"].includes(message.role)).map(text).join(" "),
    };
  } catch {
    return undefined;
  }
}

// tau's own tools for extensions that wrap or replace them: their execution goes through tau.

import { tmpdir } from "node:os";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { currentExtension } from "./current.mjs";
import { runShell } from "./programs.mjs";
import { formatSize, truncateTail } from "./truncation.mjs";

let definitions; // by name, asked for once

function definition(name) {
  definitions ??= new Map(currentExtension().read("get_builtin_tools").map((tool) => [tool.name, tool]));
  const found = definitions.get(name);
  if (!found) throw new Error(`tau has no tool ${name}`);
  return found;
}

/** A tool with tau's name, description and schema. */
export function builtinTool(name, cwd, options = {}) {
  const { label, description, parameters, promptSnippet, promptGuidelines } = definition(name);
  const execute = name === "bash" ? shellTool(cwd, options) : plainTool(name, cwd, options);
  const tool = { name, label: label ?? name, description, parameters, promptSnippet, promptGuidelines, execute };
  return name === "edit" ? { ...tool, prepareArguments: asEdits } : tool;
}

const isPair = (value) => typeof value?.oldText === "string" && typeof value.newText === "string";

/** Arguments of edit in any form that models use, with the list `edits`: a single pair, a pair beside it, JSON in a string. */
function asEdits(given) {
  if (given === null || typeof given !== "object" || Array.isArray(given)) return given;
  let { edits } = given;
  if (typeof edits === "string") {
    try {
      const parsed = JSON.parse(edits);
      if (Array.isArray(parsed) || isPair(parsed)) edits = parsed;
    } catch {} // the schema refuses it
  }
  if (isPair(edits)) edits = [edits];
  if (!isPair(given)) return edits === given.edits ? given : { ...given, edits };
  const { oldText, newText, ...rest } = given;
  return { ...rest, edits: [...(Array.isArray(edits) ? edits : []), { oldText, newText }] };
}

function plainTool(name, cwd, options) {
  return async (id, params, signal, onUpdate) => {
    if (options.operations) throw new Error(`The tool ${name} cannot use the operations of an extension in tau`);
    return run(name, params, cwd, {}, signal, onUpdate);
  };
}

function run(name, params, cwd, more, signal, onUpdate) {
  return currentExtension()
    .act("run_tool", { name, arguments: params, cwd, ...more }, { signal, receive: onUpdate })
    .then((result) => {
      if (result === null) throw new Error("Operation aborted");
      if (result.isError) throw new Error(result.content.map((block) => block.text ?? "").join("\n"));
      return { content: result.content, details: result.details ?? undefined };
    });
}

function shellTool(cwd, { operations, commandPrefix, spawnHook, shellPath }) {
  return async (id, params, signal, onUpdate) => {
    let place = { command: commandPrefix ? `${commandPrefix}\n${params.command}` : params.command, cwd, env: { ...process.env } };
    if (spawnHook) place = spawnHook(place);
    if (!operations && !shellPath) {
      const env = spawnHook ? changedVariables(place.env) : undefined;
      return run("bash", { ...params, command: place.command }, place.cwd, { env }, signal, onUpdate);
    }
    return runWith(operations ?? localShell({ shellPath }), place, params.timeout, signal, onUpdate);
  };
}

function changedVariables(env) {
  return Object.fromEntries(Object.entries(env).filter(([name, value]) => process.env[name] !== value && value !== undefined));
}

/** Runs a command with operations of an extension, and describes its output as the bash tool does. */
async function runWith(operations, { command, cwd, env }, timeout, signal, onUpdate) {
  const parts = [];
  const onData = (data) => {
    parts.push(Buffer.from(data));
    const { content } = truncateTail(Buffer.concat(parts).toString("utf8"));
    onUpdate?.({ content: [{ type: "text", text: content }], details: undefined });
  };
  let exitCode;
  let failure;
  try {
    ({ exitCode } = await operations.exec(command, cwd, { onData, signal, timeout, env }));
  } catch (error) {
    failure = error;
  }
  const { text, details } = describeOutput(Buffer.concat(parts).toString("utf8"));
  const message = String(failure?.message ?? "");
  if (failure && message === "aborted") throw new Error(`${text ? `${text}\n\n` : ""}Command aborted`);
  if (failure && message.startsWith("timeout:")) {
    throw new Error(`${text ? `${text}\n\n` : ""}Command timed out after ${message.slice(8)} seconds`);
  }
  if (failure) throw failure;
  const shown = text || "(no output)";
  if (exitCode !== 0 && exitCode !== null) throw new Error(`${shown}\n\nCommand exited with code ${exitCode}`);
  return { content: [{ type: "text", text: shown }], details };
}

function describeOutput(output) {
  const truncation = truncateTail(output);
  if (!truncation.truncated) return { text: truncation.content, details: undefined };
  const fullOutputPath = join(tmpdir(), `pi-bash-${Date.now().toString(16)}${Math.random().toString(16).slice(2, 10)}.log`);
  writeFileSync(fullOutputPath, output, { mode: 0o600, flag: "wx" });
  const first = truncation.totalLines - truncation.outputLines + 1;
  const limit = truncation.truncatedBy === "lines" ? "" : ` (${formatSize(truncation.maxBytes)} limit)`;
  const note = `[Showing lines ${first}-${truncation.totalLines} of ${truncation.totalLines}${limit}. Full output: ${fullOutputPath}]`;
  return { text: `${truncation.content}\n\n${note}`, details: { truncation, fullOutputPath } };
}

export function localShell(options) {
  return { exec: (command, cwd, more) => runShell(command, cwd, { ...more, shellPath: options?.shellPath }) };
}

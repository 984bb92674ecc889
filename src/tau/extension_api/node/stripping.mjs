// Removes types with Node's own means. The result is kept in the cache folder of the agent: Node loads the program that
// removes types only if it is needed, and it takes longer than everything else at the start.

import module from "node:module";
import { join } from "node:path";
import { builtin } from "./builtin.mjs";
import { lazy } from "./lazy.mjs";
import { maskCode } from "./masking.mjs";

const { createHash } = builtin("crypto");
const { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } = builtin("fs");
const FORMAT = 1; // of the code in the cache; a change makes older files useless. tau reads them too: typescript_cache.py
const MAX_FILES = 1000;
const lowering = lazy("./lowering.mjs");
let folder; // of the cache; undefined if there is none

/** Keeps code without types in the folder of the agent, if that exists. */
export function useCache(agentDir) {
  if (folder === undefined && agentDir && existsSync(agentDir)) folder = join(agentDir, "cache", "typescript");
}

export function stripTypes(code, path) {
  if (path.endsWith("x") && hasJsx(code)) {
    throw new Error(`${path}: JSX is not supported; write it as .ts without JSX`);
  }
  const key = digest(`${FORMAT} ${process.version} ${code}`);
  const known = cached(key);
  if (known !== undefined) return known;
  const stripped = withoutTypes(code, path);
  keep(key, stripped);
  return stripped;
}

function withoutTypes(code, path) {
  // Lowering keeps the lines; what it does not know is left to Node's transformation, which newer versions do not have.
  const attempts = [
    () => module.stripTypeScriptTypes(code, { mode: "strip" }),
    () => module.stripTypeScriptTypes(lowering().lowerSyntax(code), { mode: "strip" }),
    () => module.stripTypeScriptTypes(code, { mode: "transform" }),
  ];
  let failure;
  for (const attempt of attempts) {
    try {
      return attempt();
    } catch (error) {
      failure ??= error;
    }
  }
  failure.message = `${path}: ${failure.message}`;
  throw failure;
}

function hasJsx(code) {
  return /(?:return|=>|[=(,?:])\s*<(?:[A-Za-z][\w.]*|>)[^;]*(?:\/>|<\/)/.test(maskCode(code));
}

// The cache: a file per source, with the digest of its code before it. A file that is damaged is not used.

function digest(text) {
  return createHash("sha256").update(text).digest("hex");
}

function cached(key) {
  if (folder === undefined) return undefined;
  try {
    const content = readFileSync(join(folder, key), "utf8");
    const code = content.slice(65);
    return content.slice(0, 64) === digest(code) ? code : undefined;
  } catch {
    return undefined;
  }
}

function keep(key, code) {
  if (folder === undefined) return;
  const temporary = join(folder, `${key}.${process.pid}`);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(temporary, `${digest(code)}\n${code}`, { mode: 0o600 });
    renameSync(temporary, join(folder, key));
    removeOldest();
  } catch {} // a folder that cannot be written is no cache
}

function removeOldest() {
  const names = readdirSync(folder);
  if (names.length <= MAX_FILES) return;
  const files = names.map((name) => join(folder, name)).map((path) => ({ path, time: statSync(path).mtimeMs }));
  files.sort((one, other) => one.time - other.time);
  for (const { path } of files.slice(0, MAX_FILES / 2)) rmSync(path, { force: true });
}

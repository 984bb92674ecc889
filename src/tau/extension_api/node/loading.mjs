// Loads extensions: finds modules as the loader of pi does, and removes types with Node's own means.

import { createHash } from "node:crypto";
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import module from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { adjustImports, defineCommonJsNames } from "./imports.mjs";
import { lowerSyntax } from "./lowering.mjs";
import { maskCode } from "./masking.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const HERE_URL = new URL(".", import.meta.url).href;
const MODULES = join(HERE, "modules");
const PI_MODULE = /^@(?:earendil-works|mariozechner)\/(pi-coding-agent|pi-ai|pi-tui|pi-agent-core)(?:\/(.*))?$/;
const TYPEBOX = /^(?:@sinclair\/)?typebox(?:\/(.*))?$/;
const USES_PI = /["'](?:@(?:earendil-works|mariozechner)\/pi-|(?:@sinclair\/)?typebox)/;
const TYPESCRIPT = /\.[mc]?tsx?$/;
const ENDINGS = [".ts", ".js", ".mts", ".mjs", ".tsx", ".json", "/index.ts", "/index.js"];
const TYPESCRIPT_OF = { ".js": [".ts", ".tsx"], ".mjs": [".mts"], ".jsx": [".tsx"], ".cjs": [".cts"] };
const exportsOf = new Map(); // the names that each module of tau exports
const digests = new Map(); // SHA-256 of files that may be imported, by path
const logged = new Set();

/** The path of a file URL; "" for others. */
export function pathOf(url) {
  try {
    return url.startsWith("file:") ? fileURLToPath(url) : "";
  } catch {
    return "";
  }
}

export function installHooks() {
  module.registerHooks({ resolve, load });
}

/** Imports an extension and returns its factory. `modules` has the digests of its own files. */
export async function loadFactory(path, modules) {
  for (const [file, digest] of Object.entries(modules)) {
    digests.set(file, digest);
    try {
      digests.set(realpathSync(file), digest);
    } catch {} // reported by the import
  }
  const loaded = await import(pathToFileURL(path).href);
  const factory = typeof loaded.default === "function" ? loaded.default : loaded.default?.default;
  if (typeof factory !== "function") throw new Error(`Extension does not export a valid factory function: ${path}`);
  return factory;
}

// Resolving

/** The file of tau that stands for a module of pi or for typebox; undefined for others. */
function ownModule(specifier) {
  const pi = specifier.match(PI_MODULE);
  if (pi) {
    const part = pi[2] && existsSync(join(MODULES, `${pi[1]}.${pi[2].replaceAll("/", ".")}.mjs`));
    return join(MODULES, `${pi[1]}${part ? `.${pi[2].replaceAll("/", ".")}` : ""}.mjs`);
  }
  const typebox = specifier.match(TYPEBOX);
  if (!typebox) return undefined;
  return join(MODULES, /^(value|compile|compiler)/.test(typebox[1] ?? "") ? "typebox.value.mjs" : "typebox.mjs");
}

function isFile(path) {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

/** The file that a path without or with another ending means; undefined if there is none. */
function findFile(path) {
  if (isFile(path)) return path;
  const [ending] = path.match(/\.[mc]?jsx?$/) ?? [];
  for (const other of TYPESCRIPT_OF[ending] ?? []) {
    const file = path.slice(0, -ending.length) + other;
    if (isFile(file)) return file;
  }
  return ENDINGS.map((added) => path + added).find(isFile);
}

function resolve(specifier, context, next) {
  if (context.parentURL?.startsWith(HERE_URL)) return next(specifier, context);
  const own = ownModule(specifier);
  if (own) return { url: pathToFileURL(own).href, format: "module", shortCircuit: true };
  if (/^(?:\.{1,2}(?:\/|$)|\/|file:)/.test(specifier)) {
    const [, plain, query] = specifier.match(/^([^?#]*)(.*)$/s);
    const base = context.parentURL?.startsWith("file:") ? context.parentURL : "file:///";
    const wanted = plain.startsWith("file:") ? plain : new URL(plain.replaceAll("%", "%25"), base).href;
    const file = findFile(pathOf(wanted));
    // A CommonJS module asks for a path, all others for a URL.
    if (file) return next(isRequire(context) ? file : pathToFileURL(file).href + query, context);
  }
  try {
    return next(specifier, context);
  } catch (error) {
    const file = error.url && findFile(pathOf(error.url));
    if (!file) throw error;
    return next(isRequire(context) ? file : pathToFileURL(file).href, context);
  }
}

function isRequire(context) {
  return context.conditions?.includes("require") ?? false;
}

// Loading

function load(url, context, next) {
  const path = pathOf(url.replace(/[?#].*$/s, ""));
  if (path.startsWith(HERE)) {
    const names = url.includes("?") ? new URL(url).searchParams.get("missing") : null;
    if (names === null) return next(url, context);
    const source = [`export * from ${JSON.stringify(url.replace(/\?.*$/s, ""))};`];
    for (const name of names.split(",")) {
      source.push(name === "default" ? "export default undefined;" : `export const ${name} = undefined;`);
    }
    return { format: "module", source: source.join("\n"), shortCircuit: true };
  }
  const required = isRequire(context);
  if (TYPESCRIPT.test(path)) {
    const source = moduleSource(path);
    return { format: path.endsWith(".cts") ? "commonjs" : "module", source, shortCircuit: true };
  }
  if (path.endsWith(".json") && !required && context.importAttributes?.type === undefined) {
    return { format: "module", source: `export default ${readChecked(path)}`, shortCircuit: true };
  }
  if (digests.has(path)) readChecked(path);
  const loaded = next(url, context);
  if (loaded.format !== "module" || required || !path || loaded.source == null) return loaded;
  const text = typeof loaded.source === "string" ? loaded.source : Buffer.from(loaded.source).toString("utf8");
  const adjusted = USES_PI.test(text) ? adjustImports(text, { dropUnused: false, missing: missingNames(path) }) : text;
  const source = defineCommonJsNames(adjusted);
  return source === text ? loaded : { ...loaded, source };
}

function readChecked(path) {
  const data = readFileSync(path);
  const digest = digests.get(path);
  if (digest !== undefined && digest !== createHash("sha256").update(data).digest("hex")) {
    throw new Error(`${path} changed since the extension was loaded; reload to use the new version`);
  }
  return data.toString("utf8");
}

function moduleSource(path) {
  const stripped = stripTypes(readChecked(path), path);
  const adjusted = adjustImports(stripped, { dropUnused: true, missing: missingNames(path) });
  const source = path.endsWith(".cts") ? adjusted : defineCommonJsNames(adjusted);
  return `${source}\n//# sourceURL=${pathToFileURL(path).href}`;
}

function stripTypes(code, path) {
  if (path.endsWith("x") && hasJsx(code)) {
    throw new Error(`${path}: JSX is not supported; write it as .ts without JSX`);
  }
  // Lowering keeps the lines; what it does not know is left to Node's transformation, which newer versions do not have.
  const attempts = [
    () => module.stripTypeScriptTypes(code, { mode: "strip" }),
    () => module.stripTypeScriptTypes(lowerSyntax(code), { mode: "strip" }),
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

// What tau's own modules do not have

function missingNames(file) {
  return (specifier, names) => {
    const own = ownModule(specifier);
    if (!own) return undefined;
    const known = exportedNames(own);
    const missing = names.filter((name) => !known.has(name));
    if (missing.length === 0) return undefined;
    for (const name of missing) {
      const line = `${specifier} has no ${name}; needed by ${file}`;
      if (!logged.has(line)) process.stderr.write(`${line}\n`);
      logged.add(line);
    }
    return `${pathToFileURL(own).href}?missing=${missing.join(",")}`;
  };
}

function exportedNames(file) {
  let names = exportsOf.get(file);
  if (names) return names;
  names = new Set();
  exportsOf.set(file, names);
  const masked = readFileSync(file, "utf8");
  for (const [, name] of masked.matchAll(/^export (?:async )?(?:const|let|class|function\*?) ([\w$]+)/gm)) names.add(name);
  if (/^export default /m.test(masked)) names.add("default");
  for (const [, list, from] of masked.matchAll(/^export \{([^}]*)\}(?: from "([^"]+)")?/gm)) {
    for (const part of list.split(",")) names.add(part.trim().split(/\s+as\s+/).at(-1));
  }
  for (const [, from] of masked.matchAll(/^export \* from "([^"]+)"/gm)) {
    for (const name of exportedNames(join(dirname(file), from))) names.add(name);
  }
  return names;
}

// Record what a release of pi sends for each family of models, as facts: no prompt, no key, no message.
//
//     node record.mjs PI_AI_FOLDER
//
// PI_AI_FOLDER is node_modules/@earendil-works/pi-ai of an installed release; __main__.py installs it. It takes some
// minutes.
//
// For every model of pi's catalogue and some thinking levels and cache settings, one request is built and stopped before
// it leaves the process. Models of a provider whose requests differ only in their names are one family: one of them is
// kept. The facts are: the address, the headers that are not of the HTTP library, the fields of the body without the
// conversation, and where cache markers are.

import { pathToFileURL } from "node:url";
import { join } from "node:path";

const dist = (path) => import(pathToFileURL(join(process.argv[2], "dist", path)).href);
const { normalizeContext } = await dist("utils/transcript.js");
const catalog = await dist("models.generated.js");
const MODELS = Object.values(Object.values(catalog)[0]).flatMap((models) => Object.values(models));
const APIS = ["anthropic-messages", "openai-completions", "openai-responses", "azure-openai-responses",
  "google-generative-ai", "google-vertex", "bedrock-converse-stream", "mistral-conversations"];
// They ask for the login or the identity of another program, which tau does not use.
const LEFT_OUT = ["github-copilot", "openai-codex", "radius"];
const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];
const HEADERS = /^(anthropic-beta|x-session-.*|session[_-]id|x-client-request-id|x-affinity)$/;
const SESSION = "0198c0de-0000-7000-8000-000000000001";
const CONVERSATION = {
  systemPrompt: "Be nice.",
  tools: [{ name: "ls", description: "list", parameters: { type: "object", properties: { path: { type: "string" } }, required: [] } }],
  messages: [{ role: "user", content: "hi", timestamp: 0 }],
};
const ENV = { AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "AKIA", AWS_SECRET_ACCESS_KEY: "s", AZURE_OPENAI_BASE_URL:
  "https://lab.openai.azure.com", GOOGLE_CLOUD_API_KEY: "k", CLOUDFLARE_ACCOUNT_ID: "acc", CLOUDFLARE_GATEWAY_ID: "gw" };
Object.assign(process.env, ENV);

let sent = null;
globalThis.fetch = async (url, init) => {
  const headers = {};
  new Headers(init?.headers ?? url.headers).forEach((value, name) => { if (HEADERS.test(name)) headers[name] = value; });
  sent = { url: String(url.url ?? url), headers };
  return new Response('{"error":{"message":"stop"}}', { status: 400, headers: { "content-type": "application/json" } });
};

function markers(value, path = "", found = []) {
  if (value === null || typeof value !== "object") return found;
  for (const [key, inner] of Object.entries(value)) {
    const here = Array.isArray(value) ? `${path}[${Number(key) - value.length}]` : path ? `${path}.${key}` : key;
    if (key === "cache_control") found.push(`${path} ${inner.ttl ?? "5m"}`);
    else if (key === "cachePoint") found.push(`${path} ${inner.ttl ?? "5m"}`);
    else markers(inner, here, found);
  }
  return found;
}

function facts(payload) {
  const { messages, input, contents, system, tools, toolConfig, config, ...fields } = JSON.parse(JSON.stringify(payload));
  const shape = {};
  const first = (messages ?? input ?? [])[0];
  if (first?.role && !system && !config) shape.role = first.role;
  const tool = (tools ?? [])[0];
  if (tool) shape.tool = Object.keys(tool.function ?? tool).filter((name) => name !== "cache_control").sort();
  if (config) {
    const { systemInstruction, tools: _, abortSignal, ...rest } = config;
    fields.generationConfig = rest;
  }
  delete fields.model;
  delete fields.modelId;
  return { fields, shape, cache: markers(payload).sort() };
}

async function record(model, level, retention) {
  const api = await dist(`api/${model.api}.js`);
  let payload = null;
  sent = null;
  const options = {
    apiKey: "key", sessionId: SESSION, cacheRetention: retention, reasoning: level === "off" ? undefined : level,
    maxRetries: 0, env: ENV, onPayload: (given) => { payload = given; return undefined; },
    onResponse: () => {},
  };
  const stream = api.streamSimple(model, normalizeContext(CONVERSATION), options);
  for await (const event of stream) if (event.type === "error" || event.type === "done") break;
  if (!payload) throw new Error(`${model.provider}/${model.id}: nothing was sent`);
  return { level, retention, ...(sent ?? {}), ...facts(payload) };
}

function clamped(model, level) {
  const map = model.thinkingLevelMap ?? {};
  if (!model.reasoning) return level === "off";
  return level in map ? map[level] !== null : !["xhigh", "max"].includes(level);
}

// Of each provider and API, the first families in the order of the catalogue: more of those who make models.
const FAMILIES = { anthropic: 12, openai: 12, google: 8, "amazon-bedrock": 8, openrouter: 6 };
const KEPT = ["id", "name", "api", "provider", "baseUrl", "reasoning", "input", "contextWindow", "maxTokens", "headers",
  "compat", "thinkingLevelMap"];
const LIMITS = /"(max_tokens|max_completion_tokens|max_output_tokens|maxTokens|maxOutputTokens|budget_tokens)":\d+/g;

const families = new Map();
for (const model of MODELS) {
  if (!APIS.includes(model.api) || LEFT_OUT.includes(model.provider)) continue;
  const place = `${model.provider} ${model.api}`;
  if (!families.has(place)) families.set(place, new Map());
  if (families.get(place).size >= (FAMILIES[model.provider] ?? 2)) continue;
  const levels = LEVELS.filter((level) => clamped(model, level));
  const chosen = levels.filter((level) => ["off", "low", "high"].includes(level) || level === levels.at(-1));
  const requests = [];
  for (const level of chosen) requests.push(await record(model, level, "short"));
  requests.push(await record(model, chosen.at(-1), "long"));
  const named = JSON.stringify(requests).replaceAll(encodeURIComponent(model.id), "ID").replaceAll(model.id, "ID");
  const key = named.replace(LIMITS, "");
  const kept = Object.fromEntries(KEPT.filter((name) => name in model).map((name) => [name, model[name]]));
  if (!families.get(place).has(key)) families.get(place).set(key, { model: kept, requests });
}
const lines = [...families.values()].flatMap((found) => [...found.values()]).map((family) => JSON.stringify(family));
process.stdout.write(`${lines.join("\n")}\n`, () => process.exit(0)); // a pipe may take it in several portions

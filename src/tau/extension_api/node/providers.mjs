// Providers of models: plain ones as in models.json, and those that answer themselves with `streamSimple`.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { agentDir } from "./folders.mjs";
import { chunksOf } from "./model_calls.mjs";

const FIELDS = ["name", "baseUrl", "apiKey", "api", "headers", "authHeader", "models", "modelOverrides", "compat"];
const MODEL_FIELDS = `id name api baseUrl reasoning thinkingLevelMap input cost contextWindow maxTokens headers compat`.split(" ");

/** From the arguments of registerProvider to {name, spec, stream, refresh}. */
export function providerRegistration(first, second) {
  const native = typeof first !== "string";
  const config = native ? first : (second ?? {});
  const name = native ? first.id : first;
  const streamFunction = config.streamSimple ?? (native ? config.stream : undefined);
  const spec = withLogin(name, specOf(config), config.oauth);
  const stream = streamFunction && spec.models?.length ? streamTarget(streamFunction.bind(config)) : undefined;
  if (stream) spec.stream = true;
  const refresh = config.refreshModels && refreshed(first, config, name);
  return { name, spec, stream, refresh };
}

function specOf(config) {
  const spec = {};
  for (const field of FIELDS) if (config[field] !== undefined && typeof config[field] !== "function") spec[field] = config[field];
  if (Array.isArray(config.models)) spec.models = config.models.map(modelSpec);
  if (typeof config.getModels === "function") {
    const models = config.getModels();
    if (Array.isArray(models)) spec.models = models.map(modelSpec);
  }
  return spec;
}

/** Adds what a stored login provides: the key, and changes of the models. */
function withLogin(name, spec, oauth) {
  if (!oauth?.getApiKey) return spec;
  const login = storedLogin(name);
  if (!login) return spec;
  const models = spec.models && oauth.modifyModels ? oauth.modifyModels(spec.models, login).map(modelSpec) : spec.models;
  return { ...spec, apiKey: oauth.getApiKey(login), ...(models ? { models } : {}) };
}

function storedLogin(name) {
  try {
    const login = JSON.parse(readFileSync(join(agentDir(), "auth.json"), "utf8"))[name];
    return login?.type === "oauth" ? login : undefined;
  } catch {
    return undefined; // there is none
  }
}

function modelSpec(model) {
  return Object.fromEntries(MODEL_FIELDS.filter((field) => model[field] !== undefined).map((field) => [field, model[field]]));
}

function refreshed(first, config, name) {
  return async (signal) => {
    const models = await config.refreshModels({ signal, models: config.models ?? [] });
    const changed = { ...config, models, refreshModels: undefined };
    return typeof first === "string" ? providerRegistration(name, changed) : providerRegistration({ ...changed, id: name });
  };
}

function streamTarget(streamFunction) {
  return async ({ model, context, options }, call) => {
    const { system, messages, tools } = context;
    const asked = {
      apiKey: options.apiKey ?? undefined,
      maxTokens: options.maxTokens ?? undefined,
      sessionId: options.sessionId ?? undefined,
      reasoning: options.thinkingLevel && options.thinkingLevel !== "off" ? options.thinkingLevel : undefined,
      signal: call.signal,
    };
    const stream = await streamFunction(model, { systemPrompt: system, messages, tools }, asked);
    for await (const chunks of chunksOf(stream)) await call.put(chunks);
  };
}

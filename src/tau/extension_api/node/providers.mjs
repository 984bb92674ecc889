// Providers of models: plain ones as in models.json, and those that answer themselves with `streamSimple`.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { agentDir } from "./folders.mjs";
import { loginTarget, oauthOf } from "./provider_logins.mjs";
import { chunksOf } from "./model_calls.mjs";

const FIELDS = ["name", "baseUrl", "apiKey", "api", "headers", "authHeader", "models", "modelOverrides", "compat"];
const MODEL_FIELDS = `id name api baseUrl reasoning thinkingLevelMap input cost contextWindow maxTokens headers compat`.split(" ");

/** From the arguments of registerProvider to {name, spec, run, refresh}. `again` registers it once more. */
export function providerRegistration(extension, first, second, again) {
  const native = typeof first !== "string";
  const config = native ? first : (second ?? {});
  const name = native ? first.id : first;
  const streamFunction = config.streamSimple ?? (native ? config.stream : undefined);
  const oauth = oauthOf(config);
  const spec = withLogin(name, specOf(config), oauth);
  const stream = streamFunction && spec.models?.length ? streamTarget(streamFunction.bind(config)) : undefined;
  if (stream) spec.stream = true;
  const login = oauth && loginTarget(extension, oauth, oauth.modifyModels ? again : () => {});
  if (oauth) spec.oauth = { name: oauth.name ?? name };
  const run = (params, call) => (params.oauth ? login(params, call) : stream?.(params, call));
  const refresh = config.refreshModels && refreshed(extension, first, config, name);
  return { name, spec, run: stream || login ? run : undefined, refresh };
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

/** Applies the changes of the models that depend on a stored login. */
function withLogin(name, spec, oauth) {
  const login = spec.models && oauth?.modifyModels ? storedLogin(name) : undefined;
  if (!login) return spec;
  const models = spec.models.map((model) => ({ provider: name, baseUrl: spec.baseUrl, api: spec.api, ...model }));
  return { ...spec, models: oauth.modifyModels(models, login).map(modelSpec) };
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

function refreshed(extension, first, config, name) {
  return async (signal) => {
    const models = await config.refreshModels({ signal, models: config.models ?? [] });
    const changed = { ...config, models, refreshModels: undefined };
    const given = typeof first === "string" ? [name, changed] : [{ ...changed, id: name }, undefined];
    return providerRegistration(extension, ...given, () => {});
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

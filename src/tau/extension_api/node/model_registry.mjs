// `ctx.modelRegistry`: the models that tau knows, their keys, and calls to them through tau.

import { completeThrough, streamThrough } from "./model_calls.mjs";

const registries = new WeakMap();

export function modelRegistry(extension) {
  let registry = registries.get(extension);
  if (!registry) registries.set(extension, (registry = create(extension)));
  return registry;
}

function create(extension) {
  const all = () => extension.read("get_models", { all: true });
  const available = () => extension.read("get_models");
  const key = (provider) => extension.act("get_api_key", { provider });
  const apiKey = async (provider) => {
    const found = await key(provider);
    return found.ok ? found.apiKey : undefined;
  };
  const same = (model) => (other) => other.provider === model.provider && other.id === model.id;
  return {
    getAll: all,
    getAvailable: available,
    find: (provider, id) => all().find(same({ provider, id })),
    hasConfiguredAuth: (model) => available().some(same(model)),
    isUsingOAuth: (model) => extension.read("get_provider_auth", { provider: model.provider }).oauth,
    getProviderAuthStatus(provider) {
      const { configured, source } = extension.read("get_provider_auth", { provider });
      return { configured, source };
    },
    getProviderDisplayName: (provider) => provider,
    getProvider(provider) {
      const models = all().filter((model) => model.provider === provider);
      if (models.length === 0) return undefined;
      const stream = (model, context, options) => streamThrough(extension, model, context, options);
      return { id: provider, name: provider, models, getModels: () => models, stream, streamSimple: stream };
    },
    async getApiKeyAndHeaders(model) {
      return key(model.provider);
    },
    getApiKey: (model) => apiKey(model.provider),
    getApiKeyForProvider: apiKey,
    async getProviderAuth(provider) {
      const found = await key(provider);
      return found.ok ? { apiKey: found.apiKey, headers: found.headers } : undefined;
    },
    getError: () => undefined,
    refresh: async () => ({ errors: [] }),
    stream: (model, context, options) => streamThrough(extension, model, context, options),
    streamSimple: (model, context, options) => streamThrough(extension, model, context, options),
    complete: (model, context, options) => completeThrough(extension, model, context, options),
    completeSimple: (model, context, options) => completeThrough(extension, model, context, options),
  };
}

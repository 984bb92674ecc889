// Conversions between values of tau's protocol and those that extensions of pi know.

/** The parameters that name a model. */
export function modelKey(model) {
  return { provider: model.provider, modelId: model.id };
}

/** A command without what pi does not have. */
export function plainSourceInfo({ name, description, source, sourceInfo }) {
  return { name, ...(description === undefined ? {} : { description }), source, sourceInfo };
}

/** An object without the fields that are null: absent in pi. */
export function withoutNulls(object) {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
}

/** The parameters of send_user_message. */
export function userMessage(content, options) {
  return { content, deliverAs: options?.deliverAs, expandPromptTemplates: options?.expandPromptTemplates };
}

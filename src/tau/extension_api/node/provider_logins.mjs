// OAuth of providers: login, refresh and the key, with the functions of the extension. tau stores the credentials.

import { ui } from "./ui.mjs";

/** The OAuth functions of a provider, as `registerProvider(name, config)` takes them; undefined if it has none. */
export function oauthOf(config) {
  if (config.oauth?.getApiKey) return config.oauth;
  const native = config.auth?.oauth;
  if (!native?.toAuth) return undefined;
  return {
    name: native.name,
    refreshToken: (credentials, signal) => native.refresh(credentials, signal),
    getApiKey: async (credentials) => (await native.toAuth(credentials)).apiKey,
  };
}

/** The target that tau calls with `oauth`: "key", "refresh", "login", or "stored" after a login. */
export function loginTarget(extension, oauth, stored) {
  return async ({ oauth: wanted, credentials }, call) => {
    switch (wanted) {
      case "key":
        return oauth.getApiKey(credentials);
      case "refresh":
        return { ...credentials, ...(await oauth.refreshToken(credentials, call.signal)) };
      case "login":
        return logIn(extension, oauth, call);
      case "stored":
        return stored();
    }
  };
}

async function logIn(extension, oauth, call) {
  if (!oauth.login) throw new Error("This provider has no login that tau can perform");
  const ended = new AbortController();
  const signal = AbortSignal.any([call.signal, ended.signal]);
  const { input, select } = ui(extension);
  const show = (value) => void call.put(value).catch(() => {});
  const answer = async (value) => {
    const given = await value;
    if (signal.aborted) return new Promise(() => {}); // withdrawn: the login has ended without this answer
    if (given === undefined) throw new Error("The login was cancelled");
    return given;
  };
  const callbacks = {
    onAuth: ({ url, instructions }) => show({ url, message: instructions }),
    onDeviceCode: ({ verificationUri, userCode }) => show({ url: verificationUri, message: `The code is ${userCode}` }),
    onProgress: (message) => show({ message }),
    onPrompt: ({ message, placeholder }) => answer(input(message, placeholder, { signal })),
    onManualCodeInput: () => answer(input("Paste the address to which the browser was sent, or the code", "", { signal })),
    async onSelect({ message, options }) {
      const label = await answer(select(message, options.map((option) => option.label), { signal }));
      return options.find((option) => option.label === label)?.id;
    },
    signal: call.signal,
  };
  try {
    return await oauth.login(callbacks);
  } finally {
    ended.abort();
  }
}

// The session that `newSession({setup})` hands to its function: what it appends goes to the new session of tau.

import { sessionManager } from "./session_manager.mjs";

export function writableSession(extension) {
  const append = (name, params) => {
    extension.tell(name, params);
    return extension.fact("leafId");
  };
  return Object.assign(Object.create(sessionManager(extension)), {
    appendMessage: (message) => append("append_message", { message }),
    appendCustomEntry: (customType, data) => append("append_entry", { customType, data }),
    appendCustomMessageEntry: (customType, content, display, details) =>
      append("append_message", { message: { role: "custom", customType, content, display, details, timestamp: Date.now() } }),
    appendSessionInfo: (name) => append("set_session_name", { name }),
    appendLabelChange: (entryId, label) => append("set_label", { entryId, label }),
  });
}

// The other extension of the package: looks at what was written, tells the model, and emits an event.

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { Channel, RULES } from "./rules.js";

export default function (pi: ExtensionAPI) {
  pi.on("tool_result", (event) => {
    if (event.toolName !== "write" || event.isError) return;
    const found = RULES.filter((rule) => rule.pattern.test(String(event.input.content)));
    for (const rule of found) pi.events.emit(Channel.Broken, { name: rule.name });
    if (found.length === 0) return;
    const text = `This breaks the rules of this house: ${found.map((rule) => rule.name).join(", ")}.`;
    return { content: [...event.content, { type: "text", text }] };
  });
}

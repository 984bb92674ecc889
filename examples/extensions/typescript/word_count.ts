// A tool and a command: the model counts words, the user asks for the total of the session.
//
//     tau -e examples/extensions/typescript/word_count.ts

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";

const ENTRY = "word-count";

export default function (pi: ExtensionAPI) {
  pi.registerTool({
    name: "word_count",
    label: "Word count",
    description: "Count the words of a text",
    parameters: Type.Object({ text: Type.String({ description: "The text" }) }),
    async execute(_id, { text }) {
      const words = text.split(/\s+/).filter(Boolean).length;
      pi.appendEntry(ENTRY, { words });
      return { content: [{ type: "text", text: String(words) }], details: { words } };
    },
  });

  pi.registerCommand("words", {
    description: "Show how many words were counted in this session",
    handler: async (_args, ctx) => {
      const entries = ctx.sessionManager.getBranch().filter((entry) => entry.type === "custom" && entry.customType === ENTRY);
      const total = entries.reduce((sum, entry) => sum + entry.data.words, 0);
      ctx.ui.notify(`${total} words`, "info");
    },
  });
}

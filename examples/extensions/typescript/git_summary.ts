// Input, programs and the context: "#diff" in a prompt becomes the output of `git diff --stat`, and old tool results
// are shortened before the model sees them.
//
//     tau -e examples/extensions/typescript/git_summary.ts

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

const KEPT = 10; // messages at the end that stay as they are
const LONG = 2_000; // characters

export default function (pi: ExtensionAPI) {
  pi.on("input", async (event, ctx) => {
    if (!event.text.includes("#diff")) return { action: "continue" };
    const { stdout, code } = await pi.exec("git", ["diff", "--stat"], { cwd: ctx.cwd, timeout: 5_000 });
    if (code !== 0) ctx.ui.notify("git diff failed", "warning");
    return { action: "transform", text: event.text.replaceAll("#diff", stdout.trim() || "(no changes)") };
  });

  pi.on("context", (event) => {
    for (const message of event.messages.slice(0, -KEPT)) {
      if (message.role !== "toolResult") continue;
      for (const block of message.content) {
        if (block.type === "text" && block.text.length > LONG) block.text = `${block.text.slice(0, LONG)}\n[shortened]`;
      }
    }
  });
}

// A gate: asks before a command pushes to a remote repository.
//
//     tau -e examples/extensions/typescript/ask_before_push.ts

import { type ExtensionAPI, isToolCallEventType } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.registerFlag("allow-push", { type: "boolean", default: false, description: "Push without asking" });

  pi.on("tool_call", async (event, ctx) => {
    if (!isToolCallEventType("bash", event) || !/\bgit\s+push\b/.test(event.input.command)) return;
    if (pi.getFlag("allow-push")) return;
    if (!ctx.hasUI) return { block: true, reason: "Pushing needs a person who agrees." };
    const agreed = await ctx.ui.confirm("Push?", event.input.command, { timeout: 60_000 });
    return agreed ? undefined : { block: true, reason: "The user does not want to push." };
  });
}

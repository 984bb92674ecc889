// Status and widget: shows how long the current run takes, and which tools it has used.
//
//     tau -e examples/extensions/typescript/run_time.ts

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  let begun = 0;
  let used: string[] = [];

  pi.on("agent_start", (_event, ctx) => {
    [begun, used] = [Date.now(), []];
    ctx.ui.setStatus("run-time", ctx.ui.theme.fg("muted", "running"));
  });
  pi.on("tool_execution_end", (event, ctx) => {
    used.push(event.toolName);
    ctx.ui.setWidget("run-time", [`tools: ${used.join(", ")}`], { placement: "belowEditor" });
  });
  pi.on("agent_end", (_event, ctx) => {
    const seconds = ((Date.now() - begun) / 1000).toFixed(1);
    ctx.ui.setStatus("run-time", ctx.ui.theme.fg("success", `${seconds} s`));
    ctx.ui.setWidget("run-time", undefined);
  });
}

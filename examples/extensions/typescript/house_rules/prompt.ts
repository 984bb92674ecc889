// A package of two extensions that talk over the event bus. This one adds the rules to the system prompt, and counts.
//
//     tau -e examples/extensions/typescript/house_rules

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { Channel, RULES, Rule } from "./rules";

export default function (pi: ExtensionAPI) {
  const broken = new Map<string, number>();

  pi.events.on(Channel.Broken, (data) => {
    const { name } = data as Rule;
    broken.set(name, (broken.get(name) ?? 0) + 1);
  });
  pi.on("before_agent_start", (event) => ({
    systemPrompt: `${event.systemPrompt}\n\nRules of this house: ${RULES.map((rule) => rule.name).join(", ")}.`,
  }));
  pi.registerCommand("rules", {
    description: "Show which rules were broken",
    handler: async (_args, ctx) => {
      const lines = RULES.map((rule) => `${rule.name}: ${broken.get(rule.name) ?? 0}`);
      ctx.ui.notify(lines.join("\n"), "info");
    },
  });
}

// Dialogs, labels and messages with a renderer: /bookmark names a place in the session, /bookmarks goes back to one.
//
//     tau -e examples/extensions/typescript/bookmarks.ts

import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { Text } from "@earendil-works/pi-tui";

function labelled(ctx: ExtensionContext) {
  return ctx.sessionManager
    .getEntries()
    .map((entry) => ({ id: entry.id, label: ctx.sessionManager.getLabel(entry.id) }))
    .filter((one) => one.label !== undefined);
}

export default function (pi: ExtensionAPI) {
  pi.registerMessageRenderer("bookmark", (message, _options, theme) => new Text(theme.fg("accent", `★ ${message.content}`), 0, 0));

  pi.registerCommand("bookmark", {
    description: "Name this place in the session",
    handler: async (args, ctx) => {
      const leaf = ctx.sessionManager.getLeafId();
      const name = args.trim() || (await ctx.ui.input("Name of the bookmark", "before the refactoring"));
      if (!leaf || !name) return;
      pi.setLabel(leaf, name);
      pi.sendMessage({ customType: "bookmark", content: name, display: true });
    },
  });

  pi.registerCommand("bookmarks", {
    description: "Go back to a bookmark",
    handler: async (_args, ctx) => {
      const found = labelled(ctx);
      const name = await ctx.ui.select("Go to", found.map((one) => one.label as string));
      const target = found.find((one) => one.label === name);
      if (target) await ctx.navigateTree(target.id, { summarize: false });
    },
  });

  pi.registerShortcut("ctrl+shift+b", {
    description: "Count the bookmarks",
    handler: (ctx) => ctx.ui.notify(`${labelled(ctx).length} bookmarks`, "info"),
  });
}

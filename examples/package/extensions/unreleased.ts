// A tool for the model and a command for the user: the commits since the last tag.

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";

interface Unreleased {
  tag: string | undefined;
  commits: string[];
}

async function unreleased(pi: ExtensionAPI, cwd: string): Promise<Unreleased> {
  const described = await pi.exec("git", ["describe", "--tags", "--abbrev=0"], { cwd });
  const tag = described.code === 0 ? described.stdout.trim() : undefined;
  const range = tag === undefined ? "HEAD" : `${tag}..HEAD`;
  const { code, stdout, stderr } = await pi.exec("git", ["log", "--format=%s", range], { cwd });
  if (code !== 0) throw new Error(stderr.trim() || "git log failed");
  return { tag, commits: stdout.split("\n").filter(Boolean) };
}

export default function (pi: ExtensionAPI) {
  pi.registerTool({
    name: "unreleased_commits",
    label: "Unreleased commits",
    description: "List the subjects of the commits since the last tag of the repository",
    parameters: Type.Object({}),
    async execute(_id, _params, _signal, _onUpdate, ctx) {
      const found = await unreleased(pi, ctx.cwd);
      const text = found.commits.map((subject) => `- ${subject}`).join("\n") || "There are none.";
      return { content: [{ type: "text", text }], details: found };
    },
  });

  pi.registerCommand("unreleased", {
    description: "Show how many commits there are since the last tag",
    handler: async (_args, ctx) => {
      const { tag, commits } = await unreleased(pi, ctx.cwd);
      ctx.ui.notify(`${commits.length} commits since ${tag ?? "the beginning"}`, "info");
    },
  });
}

// Skills: folders with a SKILL.md, and Markdown files, with a name and a description.

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { CONFIG_DIR_NAME } from "./folders.mjs";
import { parseFrontmatter } from "./frontmatter.mjs";

function skillOf(file, source) {
  const { frontmatter } = parseFrontmatter(readFileSync(file, "utf8"));
  const baseDir = dirname(file);
  const name = frontmatter.name ?? (basename(file) === "SKILL.md" ? basename(baseDir) : basename(file, ".md"));
  if (!frontmatter.description) return undefined;
  return {
    name,
    description: String(frontmatter.description).trim(),
    filePath: file,
    baseDir,
    sourceInfo: { path: file, source, scope: source === "project" ? "project" : "user", origin: "top-level", baseDir },
    disableModelInvocation: frontmatter["disable-model-invocation"] === true,
  };
}

export function loadSkillsFromDir({ dir, source }) {
  const skills = [];
  const diagnostics = [];
  const add = (file) => {
    try {
      const skill = skillOf(file, source);
      if (skill) skills.push(skill);
      else diagnostics.push({ type: "warning", message: "description is required", path: file });
    } catch (error) {
      diagnostics.push({ type: "warning", message: error.message, path: file });
    }
  };
  const visit = (folder, top) => {
    if (existsSync(join(folder, "SKILL.md"))) return add(join(folder, "SKILL.md"));
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.name.startsWith(".") || entry.name === "node_modules") continue;
      const path = join(folder, entry.name);
      if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) visit(path, false);
      else if (top && entry.name.endsWith(".md")) add(path);
    }
  };
  if (existsSync(dir)) visit(dir, true);
  return { skills, diagnostics };
}

export function loadSkills({ cwd = process.cwd(), agentDir, skillPaths = [], includeDefaults = true } = {}) {
  const places = [
    ...(includeDefaults ? [{ dir: join(cwd, CONFIG_DIR_NAME, "skills"), source: "project" }] : []),
    ...(includeDefaults && agentDir ? [{ dir: join(agentDir, "skills"), source: "user" }] : []),
    ...skillPaths.map((path) => ({ dir: resolve(cwd, path), source: "path" })),
  ];
  const found = places.map(loadSkillsFromDir);
  const byName = new Map();
  for (const skill of found.flatMap(({ skills }) => skills)) if (!byName.has(skill.name)) byName.set(skill.name, skill);
  return { skills: [...byName.values()], diagnostics: found.flatMap(({ diagnostics }) => diagnostics) };
}

const escapeXml = (text) => text.replace(/[&<>"']/g, (char) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" })[char]);

/** The list of skills in a system prompt. */
export function formatSkillsForPrompt(skills) {
  const shown = skills.filter((skill) => !skill.disableModelInvocation);
  if (shown.length === 0) return "";
  const items = shown.map(
    ({ name, description, filePath }) =>
      `  <skill>\n    <name>${escapeXml(name)}</name>\n    <description>${escapeXml(description)}</description>\n    <location>${escapeXml(filePath)}</location>\n  </skill>`,
  );
  return `\n\n<available_skills>\n${items.join("\n")}\n</available_skills>`;
}

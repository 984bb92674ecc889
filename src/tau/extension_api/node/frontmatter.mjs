// The YAML fields at the beginning of a Markdown file: maps, lists, quoted texts and block texts.

/** {frontmatter, body} of a file. Without fields, the body is the whole text. */
export function parseFrontmatter(content) {
  const text = content.replace(/\r\n?/g, "\n");
  const found = /^---\n([\s\S]*?)\n?---(?:\n|$)/.exec(text);
  if (!found) return { frontmatter: {}, body: text };
  return { frontmatter: parseYaml(found[1]) ?? {}, body: text.slice(found[0].length).trim() };
}

export function stripFrontmatter(content) {
  return parseFrontmatter(content).body;
}

export function parseYaml(text) {
  const lines = text.split("\n").map((line) => line.replace(/\t/g, "  "));
  return block(lines, { at: 0 }, 0);
}

const indentOf = (line) => line.length - line.trimStart().length;
const isEmpty = (line) => /^\s*(?:#.*)?$/.test(line);

function block(lines, place, indent) {
  while (place.at < lines.length && isEmpty(lines[place.at])) place.at++;
  if (place.at >= lines.length || indentOf(lines[place.at]) < indent) return null;
  const depth = indentOf(lines[place.at]);
  return lines[place.at].trimStart().startsWith("- ") || lines[place.at].trim() === "-"
    ? list(lines, place, depth)
    : map(lines, place, depth);
}

function list(lines, place, depth) {
  const items = [];
  while (place.at < lines.length) {
    const line = lines[place.at];
    if (isEmpty(line)) {
      place.at++;
      continue;
    }
    if (indentOf(line) !== depth || !line.trimStart().startsWith("-")) break;
    const rest = line.trimStart().slice(1).trim();
    if (rest === "") {
      place.at++;
      items.push(block(lines, place, depth + 1));
    } else if (/^[\w$-]+\s*:(?:\s|$)/.test(rest)) {
      lines[place.at] = " ".repeat(depth + 2) + rest;
      items.push(map(lines, place, depth + 2));
    } else {
      place.at++;
      items.push(scalar(rest));
    }
  }
  return items;
}

function map(lines, place, depth) {
  const fields = {};
  while (place.at < lines.length) {
    const line = lines[place.at];
    if (isEmpty(line)) {
      place.at++;
      continue;
    }
    if (indentOf(line) !== depth) break;
    const found = /^(?:"([^"]*)"|'([^']*)'|([^:#]+?))\s*:(?:\s+(.*))?$/.exec(line.trim());
    if (!found) break;
    place.at++;
    fields[found[1] ?? found[2] ?? found[3]] = value(found[4]?.trim() ?? "", lines, place, depth);
  }
  return fields;
}

function value(text, lines, place, depth) {
  if (/^[|>][+-]?\d*$/.test(text)) return blockText(text, lines, place, depth);
  if (text === "" || text.startsWith("#")) {
    const next = lines.slice(place.at).find((line) => !isEmpty(line));
    const nested = next !== undefined && (indentOf(next) > depth || (indentOf(next) === depth && next.trim().startsWith("- ")));
    return nested ? block(lines, place, indentOf(next)) : null;
  }
  let whole = text;
  if (!/^["'[{]/.test(text)) {
    while (place.at < lines.length && !isEmpty(lines[place.at]) && indentOf(lines[place.at]) > depth) {
      whole += ` ${lines[place.at++].trim()}`;
    }
  }
  return scalar(whole);
}

function blockText(kind, lines, place, depth) {
  const taken = [];
  while (place.at < lines.length && (lines[place.at].trim() === "" || indentOf(lines[place.at]) > depth)) taken.push(lines[place.at++]);
  const inner = Math.min(...taken.filter((line) => line.trim()).map(indentOf));
  const texts = taken.map((line) => line.slice(inner));
  const joined = kind.startsWith("|") ? texts.join("\n") : texts.join("\n").replace(/(?<!\n)\n(?!\n|$)/g, " ");
  return kind.includes("-") ? joined.replace(/\n+$/, "") : `${joined.replace(/\n+$/, "")}\n`;
}

function scalar(text) {
  const quoted = /^(["'])([\s\S]*)\1$/.exec(text);
  if (quoted) return quoted[1] === '"' ? JSON.parse(`"${quoted[2].replace(/\n/g, "\\n")}"`) : quoted[2].replaceAll("''", "'");
  if (text.startsWith("[") && text.endsWith("]")) return flow(text.slice(1, -1)).map(scalar);
  if (text.startsWith("{") && text.endsWith("}")) {
    return Object.fromEntries(flow(text.slice(1, -1)).map((part) => part.split(/:\s*(.*)/s).slice(0, 2).map((one) => scalar(one.trim()))));
  }
  const plain = text.replace(/\s+#.*$/, "").trim();
  if (/^(?:true|True|TRUE)$/.test(plain)) return true;
  if (/^(?:false|False|FALSE)$/.test(plain)) return false;
  if (/^(?:null|Null|NULL|~)$/.test(plain)) return null;
  if (/^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?$/i.test(plain)) return Number(plain);
  return plain;
}

function flow(text) {
  const parts = [];
  let depth = 0;
  let quote = "";
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (quote) quote = char === quote ? "" : quote;
    else if (char === '"' || char === "'") quote = char;
    else if ("[{".includes(char)) depth++;
    else if ("]}".includes(char)) depth--;
    else if (char === "," && depth === 0) {
      parts.push(text.slice(from, at).trim());
      from = at + 1;
    }
  }
  parts.push(text.slice(from).trim());
  return parts.filter(Boolean);
}

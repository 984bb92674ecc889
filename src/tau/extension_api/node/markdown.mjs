// Markdown as styled lines, for components that draw it. Tables and nested lists stay as they are written.


const same = (text) => text;
const RULE_WIDTH = 80;

export function renderMarkdown(text, theme) {
  const style = (name) => theme?.[name] ?? same;
  const lines = [];
  let code; // the lines of an open code block
  let language;
  for (const line of text.split("\n")) {
    const fence = line.match(/^\s*(?:```|~~~)(.*)$/);
    if (fence && code === undefined) {
      [code, language] = [[], fence[1].trim()];
      lines.push(style("codeBlockBorder")(`\`\`\`${language}`));
    } else if (fence) {
      lines.push(...codeLines(code, language, theme), style("codeBlockBorder")("```"));
      code = undefined;
    } else if (code !== undefined) code.push(line);
    else lines.push(blockLine(line, style));
  }
  if (code !== undefined) lines.push(...codeLines(code, language, theme));
  return lines;
}

function codeLines(code, language, theme) {
  const indent = theme?.codeBlockIndent ?? "  ";
  const shown = theme?.highlightCode?.(code.join("\n"), language || undefined) ?? code.map(theme?.codeBlock ?? same);
  return shown.map((line) => indent + line);
}

function blockLine(line, style) {
  const heading = line.match(/^(#{1,6})\s+(.*)$/);
  if (heading) {
    const marker = heading[1].length > 2 ? `${heading[1]} ` : "";
    return style("heading")(style("bold")(marker + inline(heading[2], style)));
  }
  if (/^\s*(?:[-*_]\s*){3,}$/.test(line)) return style("hr")("─".repeat(RULE_WIDTH));
  const quote = line.match(/^\s*>\s?(.*)$/);
  if (quote) return style("quoteBorder")("│ ") + style("quote")(style("italic")(inline(quote[1], style)));
  const item = line.match(/^(\s*)([-*+]|\d+[.)])\s+(.*)$/);
  if (item) return `${item[1]}${style("listBullet")(/\d/.test(item[2]) ? `${item[2]} ` : "- ")}${inline(item[3], style)}`;
  return inline(line, style);
}

function inline(text, style) {
  return text
    .split(/(`[^`]+`)/)
    .map((part) => (/^`.+`$/.test(part) ? style("code")(part.slice(1, -1)) : emphasis(part, style)))
    .join("");
}

function emphasis(text, style) {
  return text
    .replace(/\*\*(.+?)\*\*|__(.+?)__/g, (_, one, other) => style("bold")(one ?? other))
    .replace(/(?<![\w*])\*(?!\s)(.+?)\*(?![\w*])|(?<!\w)_(?!\s)(.+?)_(?!\w)/g, (_, one, other) => style("italic")(one ?? other))
    .replace(/~~(.+?)~~/g, (_, struck) => style("strikethrough")(struck))
    .replace(/\[([^\]]+)\]\(([^)\s]+)\)/g, (_, label, url) =>
      label === url ? style("link")(label) : `${style("link")(style("underline")(label))}${style("linkUrl")(` (${url})`)}`,
    );
}


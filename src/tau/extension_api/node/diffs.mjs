// Differences between two texts: with line numbers for people and models, and as a unified patch.

/** The changes by line: [kind, text] with kind " ", "+" or "-". */
function lineChanges(before, after) {
  let first = 0;
  while (first < before.length && first < after.length && before[first] === after[first]) first++;
  let last = 0;
  while (last < before.length - first && last < after.length - first && before.at(-1 - last) === after.at(-1 - last)) last++;
  const middle = shortest(before.slice(first, before.length - last), after.slice(first, after.length - last));
  const same = (lines) => lines.map((line) => [" ", line]);
  return [...same(before.slice(0, first)), ...middle, ...same(last ? before.slice(-last) : [])];
}

const MAX_CELLS = 4_000_000; // beyond that, everything in between counts as replaced

function shortest(before, after) {
  if (before.length * after.length > MAX_CELLS) return [...before.map((line) => ["-", line]), ...after.map((line) => ["+", line])];
  const width = after.length + 1;
  const lengths = new Uint32Array((before.length + 1) * width);
  for (let row = before.length - 1; row >= 0; row--) {
    for (let column = after.length - 1; column >= 0; column--) {
      lengths[row * width + column] =
        before[row] === after[column]
          ? lengths[(row + 1) * width + column + 1] + 1
          : Math.max(lengths[(row + 1) * width + column], lengths[row * width + column + 1]);
    }
  }
  const changes = [];
  let [row, column] = [0, 0];
  while (row < before.length || column < after.length) {
    if (row < before.length && column < after.length && before[row] === after[column]) {
      changes.push([" ", before[row++]]);
      column++;
    } else if (row < before.length && (column >= after.length || lengths[(row + 1) * width + column] >= lengths[row * width + column + 1])) {
      changes.push(["-", before[row++]]);
    } else changes.push(["+", after[column++]]);
  }
  return changes;
}

function linesOf(text) {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** {diff, firstChangedLine}: changed lines with their numbers, and `contextLines` around them. */
export function generateDiffString(oldText, newText, contextLines = 4) {
  const changes = lineChanges(linesOf(oldText), linesOf(newText));
  const width = String(Math.max(oldText.split("\n").length, newText.split("\n").length)).length;
  const near = nearChanges(changes, contextLines);
  const out = [];
  let [oldLine, newLine, firstChangedLine] = [1, 1, undefined];
  let skipped = false;
  for (const [at, [kind, text]] of changes.entries()) {
    const number = kind === "+" ? newLine : oldLine;
    if (kind !== " ") firstChangedLine ??= newLine;
    if (near[at]) out.push(`${kind}${String(number).padStart(width)} ${text}`);
    else if (!skipped) out.push(` ${" ".repeat(width)} ...`);
    skipped = !near[at];
    if (kind !== "+") oldLine++;
    if (kind !== "-") newLine++;
  }
  return { diff: out.join("\n"), firstChangedLine };
}

function nearChanges(changes, contextLines) {
  const near = new Array(changes.length).fill(false);
  for (const [at, [kind]] of changes.entries()) {
    if (kind === " ") continue;
    for (let place = Math.max(0, at - contextLines); place <= Math.min(changes.length - 1, at + contextLines); place++) near[place] = true;
  }
  return near;
}

export function generateUnifiedPatch(path, oldText, newText, contextLines = 4) {
  const changes = lineChanges(linesOf(oldText), linesOf(newText));
  const near = nearChanges(changes, contextLines);
  const out = [`--- ${path}`, `+++ ${path}`];
  let [oldLine, newLine] = [1, 1];
  let hunk;
  const close = () => {
    if (hunk) out.push(`@@ -${hunk.old},${hunk.oldCount} +${hunk.new},${hunk.newCount} @@`, ...hunk.lines);
    hunk = undefined;
  };
  for (const [at, [kind, text]] of changes.entries()) {
    if (near[at]) {
      hunk ??= { old: oldLine, new: newLine, oldCount: 0, newCount: 0, lines: [] };
      hunk.lines.push(kind + text);
      if (kind !== "+") hunk.oldCount++;
      if (kind !== "-") hunk.newCount++;
    } else close();
    if (kind !== "+") oldLine++;
    if (kind !== "-") newLine++;
  }
  close();
  return `${out.join("\n")}\n`;
}

// Truncation of tool output: at a number of lines or of bytes, whichever comes first.

export const DEFAULT_MAX_LINES = 2000;
export const DEFAULT_MAX_BYTES = 50 * 1024;
export const GREP_MAX_LINE_LENGTH = 500;

export function formatSize(bytes) {
  if (bytes < 1024) return `${bytes}B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)}KB`;
  return `${(bytes / (1024 * 1024)).toFixed(1)}MB`;
}

const size = (text) => Buffer.byteLength(text, "utf8");

function describe(text, kept, by, limits, extra) {
  const lines = text.split("\n");
  const content = kept.join("\n");
  return {
    content,
    truncated: by !== null,
    truncatedBy: by,
    totalLines: lines.length,
    totalBytes: size(text),
    outputLines: kept.length,
    outputBytes: size(content),
    lastLinePartial: false,
    firstLineExceedsLimit: false,
    maxLines: limits.maxLines,
    maxBytes: limits.maxBytes,
    ...extra,
  };
}

function limitsOf(options) {
  return { maxLines: options?.maxLines ?? DEFAULT_MAX_LINES, maxBytes: options?.maxBytes ?? DEFAULT_MAX_BYTES };
}

/** Keeps the first lines. */
export function truncateHead(text, options) {
  const limits = limitsOf(options);
  const lines = text.split("\n");
  if (lines.length <= limits.maxLines && size(text) <= limits.maxBytes) return describe(text, lines, null, limits);
  if (size(lines[0]) > limits.maxBytes) return describe(text, [], "bytes", limits, { firstLineExceedsLimit: true });
  const kept = [];
  let bytes = 0;
  for (const line of lines) {
    const more = size(line) + (kept.length ? 1 : 0);
    if (bytes + more > limits.maxBytes) return describe(text, kept, "bytes", limits);
    if (kept.length === limits.maxLines) break;
    kept.push(line);
    bytes += more;
  }
  return describe(text, kept, "lines", limits);
}

/** Keeps the last lines; of a last line that is too long, its end. */
export function truncateTail(text, options) {
  const limits = limitsOf(options);
  const lines = text.split("\n");
  if (lines.length <= limits.maxLines && size(text) <= limits.maxBytes) return describe(text, lines, null, limits);
  const kept = [];
  let bytes = 0;
  let by = "lines";
  let partial = false;
  for (let at = lines.length - 1; at >= 0 && kept.length < limits.maxLines; at--) {
    const more = size(lines[at]) + (kept.length ? 1 : 0);
    if (bytes + more > limits.maxBytes) {
      by = "bytes";
      if (kept.length === 0) {
        kept.push(endOf(lines[at], limits.maxBytes));
        partial = true;
      }
      break;
    }
    kept.unshift(lines[at]);
    bytes += more;
  }
  return describe(text, kept, by, limits, { lastLinePartial: partial });
}

function endOf(line, maxBytes) {
  const data = Buffer.from(line, "utf8");
  let from = Math.max(0, data.length - maxBytes);
  while (from < data.length && (data[from] & 0xc0) === 0x80) from++;
  return data.subarray(from).toString("utf8");
}

export function truncateLine(line, maxLength = GREP_MAX_LINE_LENGTH) {
  if (line.length <= maxLength) return { text: line, wasTruncated: false };
  return { text: `${line.slice(0, maxLength)}... [truncated]`, wasTruncated: true };
}

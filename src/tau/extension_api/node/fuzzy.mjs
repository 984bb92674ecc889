// Fuzzy search: the characters of the query in order, better the closer together and the nearer to words' beginnings.

/** {matches, score}; a lower score is better. */
export function fuzzyMatch(query, text) {
  const wanted = query.toLowerCase();
  const given = text.toLowerCase();
  if (wanted === "") return { matches: true, score: 0 };
  let score = 0;
  let last = -1;
  for (const char of wanted) {
    const at = given.indexOf(char, last + 1);
    if (at < 0) return { matches: false, score: 0 };
    const startsWord = at === 0 || /[\s\-_./:]/.test(given[at - 1]);
    score += last >= 0 && at === last + 1 ? -5 : (at - last - 1) * 2;
    if (startsWord) score -= 10;
    score += at * 0.1;
    last = at;
  }
  return { matches: true, score };
}

/** The items that match all words of the query, best first. */
export function fuzzyFilter(items, query, getText) {
  const words = query.trim().split(/\s+/).filter(Boolean);
  if (words.length === 0) return items;
  return items
    .map((item) => ({ item, found: words.map((word) => fuzzyMatch(word, getText(item))) }))
    .filter(({ found }) => found.every(({ matches }) => matches))
    .map(({ item, found }) => ({ item, score: found.reduce((sum, { score }) => sum + score, 0) }))
    .sort((one, other) => one.score - other.score)
    .map(({ item }) => item);
}

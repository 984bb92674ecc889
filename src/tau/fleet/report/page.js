"use strict";
(() => {
  const table = document.getElementById("results");
  const heads = [...table.querySelectorAll("thead th")];
  const bodies = [...table.tBodies];
  const all = bodies.flatMap((body) => [...body.rows]);
  const size = Math.max(1, bodies[0] ? bodies[0].rows.length : 1);
  const search = document.getElementById("search");
  const status = document.getElementById("status");
  const filters = [...document.querySelectorAll("#filters button")];
  const NUMBERS = new Set(["turns", "tokens", "cost", "seconds", "change"]);
  let rows = all;
  let outcome = "";

  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const text = words.length ? row.textContent.toLowerCase() : "";
      const shown = (!outcome || row.dataset.outcome === outcome) && words.every((word) => text.includes(word));
      row.hidden = !shown;
      count += shown;
    }
    status.textContent = `${count.toLocaleString("en")} of ${all.length.toLocaleString("en")} tasks`;
  };

  const sort = (head, key) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((one) => one.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = NUMBERS.has(key) ? (row) => Number(row.dataset[key]) : (row) => row.dataset[key];
    const compare = NUMBERS.has(key)
      ? (one, other) => value(one) - value(other)
      : (one, other) => value(one).localeCompare(value(other), "en", { numeric: true });
    rows = [...all].sort((one, other) => (down ? -1 : 1) * compare(one, other));
    rows.forEach((row, at) => bodies[Math.floor(at / size)].append(row));
  };

  for (const head of heads) {
    const button = head.querySelector("button");
    button.addEventListener("click", () => sort(head, button.dataset.sort));
  }
  for (const button of filters) {
    button.addEventListener("click", () => {
      outcome = button.dataset.filter;
      filters.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      show();
    });
  }
  search.addEventListener("input", show);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== search && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && document.activeElement === search) {
      search.value = "";
      show();
    }
  });

  const theme = document.getElementById("theme");
  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const name = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    name();
  });
  name();
  theme.hidden = false;
  document.getElementById("controls").hidden = false;
  show();
})();

// Sorts a table's rows on this page by the column whose head is pressed: up, down, as the server sent them.
// Times, durations, percentages and numbers are compared as such.
"use strict";
(() => {
  const units = { ms: 1e-3, s: 1, min: 60, h: 3600, day: 86400, days: 86400 };
  const sorted = new Map(); // by a table's name: the column and the order

  function value(cell) {
    const time = cell?.querySelector("time")?.dateTime;
    if (time) return Date.parse(time);
    const text = (cell?.textContent ?? "").trim();
    const plain = text.replace(/\u202f/g, "");
    const durations = [...plain.matchAll(/([\d.]+) (ms|s|min|h|days?)(?![a-z])/g)];
    if (durations.length) return durations.reduce((sum, [, n, unit]) => sum + n * units[unit], 0);
    const number = plain.match(/^-?[\d.]+/);
    return number ? Number(number[0]) : text;
  }

  function compare(a, b) {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
    return typeof a === "number" ? -1 : 1;
  }

  function sort(table, name) {
    const { column, order } = sorted.get(name);
    table.querySelectorAll("thead th").forEach((head, i) => {
      if (i === column && order) head.setAttribute("aria-sort", order > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    const body = table.tBodies[0];
    const rows = [...body.rows];
    rows.forEach((row, i) => { row.dataset.place ??= i; });
    rows.sort((a, b) => (order && order * compare(value(a.cells[column]), value(b.cells[column]))) || a.dataset.place - b.dataset.place);
    body.append(...rows);
  }

  // Puts buttons into the heads of tables that have rows of one cell a column.
  function prepare() {
    document.querySelectorAll(".wide > table").forEach((table, n) => {
      const wide = table.parentElement;
      const heads = [...table.querySelectorAll("thead tr:only-child th")];
      if (table.dataset.sorts || table.tBodies[0]?.rows.length < 2 || !heads.length || table.querySelector("[colspan]")) return;
      table.dataset.sorts = "1";
      const name = wide.getAttribute("aria-label") ?? wide.getAttribute("aria-labelledby") ?? n;
      heads.forEach((head, column) => {
        if (head.querySelector("svg, input") || !head.textContent.trim()) return;
        const button = document.createElement("button");
        button.type = "button";
        button.className = "sort";
        button.textContent = head.textContent;
        button.addEventListener("click", () => {
          const last = sorted.get(name);
          const next = { 0: 1, 1: -1, [-1]: 0 };
          sorted.set(name, { column, order: last?.column === column ? next[last.order] : 1 });
          sort(table, name);
        });
        head.replaceChildren(button);
      });
      if (sorted.has(name)) sort(table, name);
    });
  }

  prepare();
  document.addEventListener("renewed", prepare);
})();

// Sorts a table's rows on this page by the column whose head is pressed: up, down, as the server sent them.
// Times, durations, percentages and numbers are compared as such. It also names the cells, as on a narrow screen each
// row is a card.
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
      if (table.classList.contains("cards") || !table.tBodies[0] || !heads.length || table.querySelector("[colspan]")) return;
      table.classList.add("cards");
      const labels = heads.map((head) => head.textContent.trim());
      for (const row of table.tBodies[0].rows) {
        for (const cell of row.cells) {
          if (labels[cell.cellIndex] && cell.textContent.trim()) cell.dataset.label = labels[cell.cellIndex];
        }
      }
      if (table.tBodies[0].rows.length < 2) return;
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

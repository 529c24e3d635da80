// The checkbox in the head of a table, which is shown with scripts only, selects all rows of the page.
"use strict";
document.documentElement.classList.add("scripts");
document.addEventListener("change", ({ target }) => {
  if (!target.matches("input.all")) return;
  for (const box of target.closest("table").querySelectorAll("tbody input[type=checkbox]")) box.checked = target.checked;
});

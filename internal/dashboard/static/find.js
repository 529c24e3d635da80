// The key / leads to the field that finds everything, unless somebody turned that off.
"use strict";
(() => {
  const field = document.getElementById("find");
  const off = () => localStorage.getItem("shortcut") === "off";
  const button = document.createElement("button");
  const name = () => { button.textContent = off() ? "Turn on the key /" : "Turn off the key /"; };

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || off() || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
  button.type = "button";
  button.addEventListener("click", () => {
    localStorage.setItem("shortcut", off() ? "on" : "off");
    name();
  });
  name();
  document.querySelector("footer p").append(" ", button);
})();

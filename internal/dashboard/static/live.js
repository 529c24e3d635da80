// Replaces the fragments of the page that the server says have changed. Without it the page
// stays as it was loaded.
"use strict";
(() => {
  const status = document.getElementById("live");
  const asOf = document.getElementById("as-of");
  const button = document.createElement("button");
  let source = null;
  let again = 0;

  // The same links and buttons are in the new fragment: the one that had the focus gets it again.
  const focusables = "a[href], button, input, select, summary, [tabindex]";

  async function renew(name) {
    const fragment = document.querySelector(`[data-fragment="${CSS.escape(name)}"]`);
    if (!fragment) return;
    const active = document.activeElement;
    if (fragment.contains(active) && active.closest("form, details[open]")) return; // somebody is at work in it
    const open = [...fragment.querySelectorAll("details")].map((d) => d.open);
    if (fragment.querySelector("input:checked")) return;
    const answer = await fetch(location.href, { headers: { "X-Fragment": name, Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.status);
    const place = fragment.contains(active) ? [...fragment.querySelectorAll(focusables)].indexOf(active) : -1;
    fragment.innerHTML = await answer.text();
    document.dispatchEvent(new Event("renewed"));
    fragment.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? d.open; });
    if (name === "strip") {
      const n = Number(fragment.querySelector("[data-problems]")?.dataset.problems);
      document.title = (n ? `(${n}) ` : "") + document.title.replace(/^\(\d+\) /, "");
    }
    if (place >= 0) fragment.querySelectorAll(focusables)[place]?.focus({ preventScroll: true });
  }

  function start() {
    source = new EventSource(location.href);
    source.onopen = () => { status.textContent = "live"; };
    source.onerror = () => {
      status.textContent = "no answer; trying again";
      if (source?.readyState !== EventSource.CLOSED) return; // the browser tries again
      clearTimeout(again);
      again = setTimeout(start, 10000); // after an error of HTTP it does not
    };
    source.addEventListener("read", (event) => {
      const at = event.data.replace("as of ", "");
      asOf.dateTime = at;
      asOf.textContent = at.slice(0, 19).replace("T", " ");
    });
    source.onmessage = async (event) => {
      try {
        for (const name of event.data.split(" ")) await renew(name);
        status.textContent = "live";
      } catch {
        status.textContent = "some of this is old";
      }
    };
    button.textContent = "Pause updates";
  }

  function stop() {
    clearTimeout(again);
    source?.close();
    source = null;
    status.textContent = "paused";
    button.textContent = "Update live";
  }

  button.type = "button";
  button.addEventListener("click", () => (source ? stop() : start()));
  status.after(" ", button);
  start();
})();

// A task's page: what may be done to it, and the form that runs it.
import "./act.js";
import { runForm } from "./run_form.js";
import { localise } from "./times.js";

runForm();
// The last run is on the right.
function last() {
  const history = document.querySelector(".scroll");
  if (history) history.scrollLeft = history.scrollWidth;
}
last();

// What its runs change is read again while somebody looks: the page as it would be now, piece by piece.
const FRESH_MS = 3000;
const known = new Map();
async function look() {
  const answer = document.hidden ? null : await fetch(location.href).catch(() => null);
  if (answer?.ok && !answer.redirected) {
    const read = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const piece of read.querySelectorAll("[data-fresh]")) place(piece.dataset.fresh, piece);
  }
  setTimeout(look, FRESH_MS);
}

function place(name, piece) {
  const old = document.querySelector(`[data-fresh="${name}"]`);
  const html = piece.innerHTML; // escaped by the server's templates, and CSP runs no inline script
  if (!old || html === known.get(name) || old.contains(document.activeElement)) return;
  known.set(name, html);
  old.innerHTML = html;
  localise(old);
  if (name === "runs") last();
}
setTimeout(look, FRESH_MS);

// Runs as marks in strips: they come on the right as they start, and change as they end.
import { follow } from "./socket.js";

const page = document.querySelector("[data-live-url]");

function made(html) {
  const template = document.createElement("template");
  template.innerHTML = html.trim(); // escaped by the server's templates
  return template.content.firstElementChild;
}

function place(run) {
  const strip = document.querySelector(`[data-strip="${run.dag}"]`);
  if (!strip) return false;
  const old = document.getElementById(`m-${run.id}`);
  if (old && run.version <= Number(old.dataset.version)) return false;
  const fresh = made(run.html);
  if (old) {
    const focused = old === document.activeElement;
    old.replaceWith(fresh);
    if (focused) fresh.focus({ preventScroll: true });
    return true;
  }
  strip.querySelector(".quiet")?.remove();
  const later = [...strip.children].find((other) => other.dataset.run > run.id); // ids sort by time
  strip.insertBefore(fresh, later ?? null);
  while (strip.children.length > Number(strip.dataset.most)) strip.firstElementChild.remove();
  return true;
}

// changed(): some run of this page did.
export function followRuns(changed = () => {}) {
  follow(page, (message) => {
    if (message.runs.filter(place).length) changed();
  });
}
if (!document.querySelector("[data-grid]")) followRuns();

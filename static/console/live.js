// Rows as they change. The server renders them; this file only places them, and never lets a row go backwards.
import { search_rows } from "./console.js";
import { dress } from "./picks.js";
import { follow } from "./socket.js";
import { localise } from "./times.js";

const page = document.querySelector("[data-live-url]");
const rows = page.querySelector("tbody[data-rows]");
const held = new Map(); // new rows that wait for a reader who has scrolled
const heldButton = page.querySelector("[data-held]");
const paged = "paged" in page.dataset; // an older page changes, and grows no rows
const MOST_ROWS = 200;

const scrolled = () => window.scrollY > 120;
const find = (id) => document.getElementById(`x-${id}`);

function made(html) {
  const template = document.createElement("template");
  template.innerHTML = html; // escaped by the server's templates, and CSP runs no inline script
  localise(template.content);
  dress(template.content.firstElementChild);
  search_rows(template.content);
  return template.content.firstElementChild;
}

function flash(row) {
  row.classList.add("flash");
  row.addEventListener("animationend", () => row.classList.remove("flash"), { once: true });
}

function change(old, row) {
  const version = Number(old.dataset.version);
  if (row.version < version) return;
  const fresh = made(row.html);
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  old.replaceWith(fresh);
  if (focused) fresh.querySelector(focused.matches("[data-pick]") ? "[data-pick]" : "a[data-open]").focus({ preventScroll: true });
  if (row.version > version) flash(fresh);
}

function add(row, { quiet = false } = {}) {
  const fresh = made(row.html);
  const later = [...rows.children].find((other) => other.dataset.id < row.id); // ids sort by due time
  rows.insertBefore(fresh, later ?? null);
  if (!quiet) flash(fresh);
  while (rows.children.length > MOST_ROWS) rows.lastElementChild.remove();
}

function place(row) {
  const old = find(row.id);
  if (old) change(old, row);
  else if (paged) return;
  else if (held.has(row.id)) {
    if (row.version >= held.get(row.id).version) held.set(row.id, row);
  } else if (row.insert && scrolled()) held.set(row.id, row);
  else if (row.insert) add(row);
}

function showHeld() {
  heldButton.hidden = held.size === 0;
  heldButton.textContent = `${held.size} new`;
}

function release({ quiet = false } = {}) {
  for (const row of held.values()) add(row, { quiet });
  held.clear();
  showHeld();
}

function listPage(message) {
  if ("empty" in page.dataset) {
    if (message.rows.some((row) => row.insert)) location.reload();
    return;
  }
  if (message.type === "snapshot" && !paged) {
    const fresh = new Set(message.rows.map((row) => row.id));
    for (const row of [...rows.children]) if (!fresh.has(row.dataset.id)) row.remove();
  }
  message.rows.forEach(place);
  showHeld();
  const summary = page.querySelector("#summary");
  if (summary && message.summary && !paged) {
    const focused = summary.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    summary.innerHTML = message.summary;
    if (focused) summary.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }
}

heldButton?.addEventListener("click", () => {
  window.scrollTo({ top: 0 });
  release({ quiet: true });
});
window.addEventListener("scroll", () => held.size && !scrolled() && release(), { passive: true });
follow(page, listPage);

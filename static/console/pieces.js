// Pages that come as pieces of HTML: each takes the place of what it was, and what changed in it flashes once.
import { search_rows } from "./console.js";
import { follow } from "./socket.js";
import { localise } from "./times.js";

const page = document.querySelector("[data-live-url]");
let version = 0;

const rowVersion = (root) => Number(root.querySelector("[data-row-version]")?.dataset.rowVersion ?? 0);

function place(name, html) {
  const old = document.getElementById(`f-${name}`);
  if (!old) return;
  const fresh = document.createElement("div");
  fresh.innerHTML = html; // escaped by the server's templates, and CSP runs no inline script
  if (rowVersion(fresh) < rowVersion(old)) return; // an older row than is shown
  localise(fresh);
  if (fresh.innerHTML === old.innerHTML) return; // who reads there keeps what they have selected
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const kept = focused && (focused.id ? `#${CSS.escape(focused.id)}` : focused.matches("a[href]") ? `a[href="${CSS.escape(focused.getAttribute("href"))}"]` : null);
  const before = new Map([...old.querySelectorAll("[data-id]")].map((row) => [row.dataset.id, row.dataset.version]));
  old.replaceChildren(...fresh.childNodes);
  search_rows(old);
  if (kept) old.querySelector(kept)?.focus({ preventScroll: true });
  for (const row of old.querySelectorAll("[data-id]")) {
    if (before.get(row.dataset.id) === row.dataset.version) continue;
    row.classList.add("flash");
    row.addEventListener("animationend", () => row.classList.remove("flash"), { once: true });
  }
}

follow(page, (message) => {
  if (message.type === "pieces" && message.version <= version) return;
  version = message.version;
  for (const [name, html] of Object.entries(message.pieces)) place(name, html);
  document.dispatchEvent(new CustomEvent("pieces", { detail: message.pieces }));
});

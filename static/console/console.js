// What every page does: clock, theme, keys, copying.
import { clockTime, localise, now, tick, zone } from "./times.js";

const find = (selector) => document.querySelector(selector);

localise(document);
const shown = find("[data-clock]");
function everySecond() {
  if (shown) shown.textContent = `${zone} ${clockTime(now())}`;
  tick(document);
}
everySecond();
setInterval(() => document.hidden || everySecond(), 1000);

find("[data-theme-toggle]")?.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("chronoweb-theme", root.dataset.theme);
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(find(button.dataset.copy).textContent.trim());
  const word = button.textContent;
  button.textContent = "copied";
  setTimeout(() => (button.textContent = word), 1200);
});

const help = find("#help");
for (const button of document.querySelectorAll("[data-help]")) {
  button.addEventListener("click", () => help.showModal());
}

const search = find("[data-search]");

// Hide the rows that do not contain the words; live rows pass through here too.
export function search_rows(root = document) {
  const words = (search?.value ?? "").trim().toLowerCase();
  for (const row of root.querySelectorAll("tr[data-id]")) {
    row.hidden = words !== "" && !row.textContent.toLowerCase().includes(words) && !row.dataset.id.startsWith(words);
  }
}
search?.addEventListener("input", () => search_rows());
search?.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    search.value = "";
    search_rows();
    search.blur();
  }
  const id = search.value.trim().toLowerCase();
  if (search.form) return; // the server searches
  if (event.key === "Enter" && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) {
    location.href = `${search.dataset.search}${id}/`;
  } else if (event.key === "Enter") {
    step(1);
  }
});

// Move to the next or previous row that is shown; enter then opens it, as on any link.
function step(by) {
  const links = [...document.querySelectorAll("tr[data-id]:not([hidden]) a[data-open]")];
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))];
  next?.focus({ preventScroll: true });
  next?.closest("tr").scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select, dialog *")) return;
  const act = {
    j: () => step(1),
    k: () => step(-1),
    "/": () => search?.focus(),
    "?": () => help.showModal(),
    u: () => find("[data-up]")?.click(),
  }[event.key];
  if (act && !help.open) {
    event.preventDefault();
    act();
  }
});

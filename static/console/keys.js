// The keyboard of every page: rows, finding, going up, and buttons that name a key of their own (data-key="r").
// What the page has decides which keys it has, and which the help lists.
const find = (selector) => document.querySelector(selector);
const search = find("[data-search]");
const help = find("#help");
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const isShown = (element) => element.offsetParent !== null && !element.disabled;

// Move to the next or previous row that is shown; enter then opens it, as on any link.
function step(by) {
  const links = [...document.querySelectorAll("tr[data-id]:not([hidden]) a[data-open]")];
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))];
  next?.focus({ preventScroll: true });
  next?.closest("tr").scrollIntoView({ block: "nearest" });
}

search?.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    search.value = "";
    search.dispatchEvent(new Event("input"));
    search.blur();
  }
  const id = search.value.trim().toLowerCase();
  if (search.form) return; // the server searches
  if (event.key === "Enter" && ID.test(id)) location.href = `${search.dataset.search}${id}/`;
  else if (event.key === "Enter") step(1);
});

// Who hovers over a button with a key learns the key.
for (const button of document.querySelectorAll("main [data-key]")) {
  button.setAttribute("aria-keyshortcuts", button.dataset.key);
  button.title ||= `press ${button.dataset.key}`;
}

const pressed = () => [...document.querySelectorAll("main [data-key]")].filter(isShown);

function line(key, words) {
  const [term, told, cap] = ["dt", "dd", "kbd"].map((name) => document.createElement(name));
  cap.textContent = key;
  term.append(cap);
  told.textContent = words;
  return [term, told];
}

// The lines that hold of this page, and a line for each button with a key of its own.
function showHelp() {
  for (const each of help.querySelectorAll("[data-when]")) each.hidden = !find(each.dataset.when);
  const own = new Map(pressed().map((button) => [button.dataset.key, button.dataset.keyWords ?? button.textContent.trim()]));
  help.querySelector("[data-own-keys]").replaceChildren(...[...own].flatMap(([key, words]) => line(key, words)));
  help.showModal();
}
for (const button of document.querySelectorAll("[data-help]")) button.addEventListener("click", showHelp);

const ACTS = {
  j: () => step(1),
  k: () => step(-1),
  "/": () => search?.focus(),
  "?": showHelp,
  u: () => find("[data-up]")?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select, dialog *")) return;
  if (find("dialog[open]")) return;
  const own = pressed().findLast((button) => button.dataset.key === event.key);
  const act = own ? () => own.click() : ACTS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

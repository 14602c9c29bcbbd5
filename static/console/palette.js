// Ctrl-K: one field that finds pages, tasks, DAGs, runs and executions, and does what is common.
import { acts, icon, pages, settings, zonesLike } from "./palette_items.js";

const dialog = document.querySelector("#palette");
const field = dialog?.querySelector("input");
const list = dialog?.querySelector("[role=listbox]");
const state = dialog?.querySelector("[role=status]");
const ASK_MS = 120;
const LEAST = 2; // characters that are worth asking the server about
let items = []; // what is listed, in its order
let at = 0;
let isZones = false;
let waiting = null;
let asked = null; // the request on its way

const matches = (item, words) => words.every((word) => `${item.label} ${item.words ?? ""} ${item.note ?? ""}`.toLowerCase().includes(word));

function option(item, index) {
  const made = document.createElement("div");
  made.id = `palette-${index}`;
  made.setAttribute("role", "option");
  made.dataset.index = index;
  const [name, note] = [document.createElement("bdi"), document.createElement("small")];
  name.textContent = item.label;
  note.textContent = item.note ?? "";
  if (item.state) made.dataset.state = item.state;
  made.append(icon(item.icon), name, note);
  return made;
}

function draw(found, { isWaiting = false } = {}) {
  items = found;
  const groups = new Map();
  for (const [index, item] of items.entries()) {
    if (!groups.has(item.group)) {
      const [group, title] = [document.createElement("div"), document.createElement("div")];
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", item.group);
      title.className = "palette-title";
      title.setAttribute("aria-hidden", "true");
      title.textContent = item.group;
      group.append(title);
      groups.set(item.group, group);
    }
    groups.get(item.group).append(option(item, index));
  }
  list.replaceChildren(...groups.values());
  list.setAttribute("aria-busy", String(isWaiting));
  list.hidden = items.length === 0;
  mark(0);
}

function mark(to) {
  list.querySelector("[aria-selected]")?.removeAttribute("aria-selected");
  at = Math.max(0, Math.min(items.length - 1, to));
  const chosen = list.querySelector(`#palette-${at}`);
  chosen?.setAttribute("aria-selected", "true");
  chosen?.scrollIntoView({ block: "nearest" });
  if (chosen) field.setAttribute("aria-activedescendant", chosen.id);
  else field.removeAttribute("aria-activedescendant");
}

function own(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (isZones) return zonesLike(words);
  const here = acts();
  const others = [...pages(), ...settings(() => open({ zones: true }))].filter((item) => !here.some((act) => act.label === item.label));
  const known = [...here, ...others].filter((item) => matches(item, words));
  return text.length >= 3 ? [...known, ...zonesLike(words).slice(0, 4)] : known;
}

// What this page knows at once, then what the server finds; an answer to an earlier question is dropped.
async function look() {
  clearTimeout(waiting);
  asked?.abort();
  const text = field.value.trim();
  const known = own(text);
  const asks = !isZones && text.length >= LEAST;
  draw(known, { isWaiting: asks });
  state.textContent = asks ? "looking…" : told(known);
  if (asks) waiting = setTimeout(() => ask(text, known), ASK_MS);
}

async function ask(text, known) {
  asked = new AbortController();
  const { signal } = asked;
  const answer = await fetch(`${dialog.dataset.find}?q=${encodeURIComponent(text)}`, { signal }).catch(() => null);
  if (signal.aborted) return;
  const found = answer?.ok ? (await answer.json()).found : [];
  if (signal.aborted) return;
  const kept = at;
  draw([...known, ...found]);
  mark(kept);
  state.textContent = answer?.ok ? told(items) : "The server cannot be reached: only this page's own entries are found.";
}

const told = (found) => (found.length ? `${found.length} found` : "Nothing is called so here. A whole id finds a task, DAG, run or execution.");

function act(item, { aside = false } = {}) {
  if (!item) return;
  if (item.href && aside) return void window.open(item.href, "_blank", "noopener");
  if (!item.stays) dialog.close();
  if (item.href) location.assign(item.href);
  else item.run();
}

export function open({ zones = false } = {}) {
  isZones = zones;
  field.value = "";
  field.placeholder = zones ? "Show times in which zone?" : "Find a page, task, DAG, run or id…";
  field.setAttribute("aria-label", field.placeholder);
  if (!dialog.open) dialog.showModal();
  field.focus();
  look();
}

if (dialog) {
  if (/Mac|iP(hone|ad)/.test(navigator.platform)) {
    for (const cap of document.querySelectorAll("kbd")) cap.textContent = cap.textContent.replace("Ctrl", "⌘");
  }
  for (const button of document.querySelectorAll("[data-palette]")) {
    button.addEventListener("click", () => open({ zones: button.dataset.palette === "zones" }));
  }
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    const other = document.querySelector("dialog[open]");
    if (other && other !== dialog) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });
  field.addEventListener("input", look);
  field.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 8, PageUp: at - 8 };
    if (event.key in moves) {
      const isEnd = event.key.startsWith("Arrow") && (moves[event.key] < 0 || moves[event.key] >= items.length);
      mark(isEnd ? (moves[event.key] < 0 ? items.length - 1 : 0) : moves[event.key]);
    } else if (event.key === "Enter") act(items[at], { aside: event.ctrlKey || event.metaKey });
    else if (event.key === "Backspace" && isZones && !field.value) open();
    else return;
    event.preventDefault();
  });
  list.addEventListener("click", (event) => act(items[event.target.closest("[role=option]")?.dataset.index], { aside: event.ctrlKey || event.metaKey }));
  list.addEventListener("pointermove", (event) => {
    const over = event.target.closest("[role=option]");
    if (over && Number(over.dataset.index) !== at) mark(Number(over.dataset.index));
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => asked?.abort());
}

// Rows that are chosen: by click, by x, a stretch of them with shift, all of the page; the bar below says how many.
const table = document.querySelector("table[data-picks]");
const bar = document.querySelector("[data-bulk-bar]");
const words = bar?.querySelector("[data-bulk-words]");
const none = words?.textContent;
const chosen = new Set();
let last = null; // the id of the row that was chosen last: where a stretch begins

export const picked = () => [...document.querySelectorAll("[data-pick]:checked")].map((box) => box.dataset.pick);

// A row that came live gets its box, and keeps its choice.
export function dress(row) {
  if (!table || !row.dataset.id) return;
  const cell = document.createElement("td");
  cell.className = "c-pick";
  const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: chosen.has(row.dataset.id) });
  box.dataset.pick = row.dataset.id;
  box.setAttribute("aria-label", `choose ${row.querySelector("a[data-open]").textContent}`);
  cell.append(box);
  row.prepend(cell);
}

function tell() {
  const ids = picked();
  chosen.clear();
  for (const id of ids) chosen.add(id);
  words.textContent = ids.length ? `${ids.length} chosen` : none;
  bar.classList.toggle("chosen", ids.length > 0);
  bar.hidden = !ids.length && "open" in bar.dataset; // all there are is no choice that somebody made
  bar.querySelector("[data-unpick]").hidden = !ids.length;
  const all = document.querySelector("[data-pick-all]");
  if (!all) return;
  const boxes = document.querySelectorAll("[data-pick]").length;
  all.checked = boxes > 0 && ids.length === boxes;
  all.indeterminate = ids.length > 0 && ids.length < boxes;
}

function choose(boxes, checked) {
  for (const box of boxes) box.checked = checked;
  tell();
}

// The boxes from the one that was chosen last to this one, as they stand.
function stretch(box) {
  const boxes = [...shown()];
  const from = boxes.findIndex((one) => one.dataset.pick === last);
  const to = boxes.indexOf(box);
  return from < 0 ? [box] : boxes.slice(Math.min(from, to), Math.max(from, to) + 1);
}

function shown() {
  return document.querySelectorAll("tr:not([hidden]) [data-pick]");
}

function pick(box, checked, whole) {
  choose(whole ? stretch(box) : [box], checked);
  last = box.dataset.pick;
}

if (bar) {
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-pick-all]")) choose(shown(), event.target.checked);
    else if (event.target.matches("[data-pick]")) tell();
  });
  document.addEventListener("click", (event) => {
    if (event.target.matches("[data-pick]")) pick(event.target, event.target.checked, event.shiftKey);
  });
  document.addEventListener("mousedown", (event) => {
    if (event.shiftKey && event.target.closest(".c-pick")) event.preventDefault(); // selects no text between the two
  });
  // What came live is chosen as it was; what has left the page is not chosen any more.
  document.addEventListener("pieces", () => choose([...document.querySelectorAll("[data-pick]")].filter((box) => chosen.has(box.dataset.pick)), true));
  bar.querySelector("[data-unpick]").addEventListener("click", () => choose(document.querySelectorAll("[data-pick]"), false));
  document.addEventListener("bulk-done", () => choose(document.querySelectorAll("[data-pick]"), false));
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "x" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input:not([type=checkbox]), textarea, select, dialog *")) return;
    const box = document.activeElement?.closest("tr")?.querySelector("[data-pick]");
    if (box) pick(box, event.shiftKey || !box.checked, event.shiftKey);
  });
  tell();
}

// Rows that are chosen: by click, by x, all of the page; the bar below says how many.
const table = document.querySelector("table[data-picks]");
const bar = document.querySelector("[data-bulk-bar]");
const words = bar?.querySelector("[data-bulk-words]");
const none = words?.textContent;
const chosen = new Set();

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
  const boxes = document.querySelectorAll("[data-pick]").length;
  all.checked = boxes > 0 && ids.length === boxes;
  all.indeterminate = ids.length > 0 && ids.length < boxes;
}

function choose(boxes, checked) {
  for (const box of boxes) box.checked = checked;
  tell();
}

if (table && bar) {
  const shown = () => document.querySelectorAll("tr:not([hidden]) [data-pick]");
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-pick-all]")) choose(shown(), event.target.checked);
    else if (event.target.matches("[data-pick]")) tell();
  });
  bar.querySelector("[data-unpick]").addEventListener("click", () => choose(document.querySelectorAll("[data-pick]"), false));
  document.addEventListener("bulk-done", () => choose(document.querySelectorAll("[data-pick]"), false));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "x" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input:not([type=checkbox]), textarea, select, dialog *")) return;
    const box = document.activeElement?.closest("tr")?.querySelector("[data-pick]");
    if (box) choose([box], !box.checked);
  });
  tell();
}

// The list of tasks: what the buttons below it act on, the chosen rows or all that the filter finds.
import "./act.js";

const bulk = document.querySelector("[data-bulk]");

function tasks(words, count) {
  return `${words} task${count === 1 ? "" : "s"}`;
}

// The buttons' dialogs say how many; their addresses carry the filter, or the ids, and the count that was seen.
function aim() {
  const picked = [...document.querySelectorAll("[data-pick]:checked")].map((box) => box.dataset.pick);
  const count = picked.length || Number(bulk.dataset.count);
  const many = picked.length ? tasks(picked.length, count) : tasks(bulk.dataset.words, count);
  const target = new URLSearchParams(picked.length ? picked.map((id) => ["id", id]) : bulk.dataset.target);
  target.set("expected", count);
  const found = bulk.dataset.target === "?" ? "" : " found";
  bulk.querySelector("[data-bulk-words]").textContent = picked.length ? `${many} chosen` : `${many}${found}`;
  bulk.classList.toggle("chosen", picked.length > 0);
  bulk.hidden = !picked.length && !found; // all there are is no choice that somebody made
  for (const button of bulk.querySelectorAll("[data-act]")) {
    button.dataset.base ??= button.dataset.act;
    button.dataset.ask ??= button.dataset.title;
    button.dataset.act = `${button.dataset.base}?${target}`;
    button.dataset.title = button.dataset.ask.replace("{}", picked.length ? many : found ? `all ${many} found` : `all ${many}`);
    if ("typed" in button.dataset || "danger" in button.dataset) button.dataset.typed = `delete ${count}`;
    button.disabled = "tooMany" in bulk.dataset && !picked.length;
    button.title = button.disabled ? "narrow the filter first" : "";
  }
  const all = document.querySelector("[data-pick-all]");
  const boxes = document.querySelectorAll("[data-pick]").length;
  all.checked = picked.length === boxes;
  all.indeterminate = picked.length > 0 && picked.length < boxes;
}

if (bulk) {
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-pick-all]")) {
      for (const box of document.querySelectorAll("tr:not([hidden]) [data-pick]")) box.checked = event.target.checked;
    }
    if (event.target.matches("[data-pick], [data-pick-all]")) aim();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "x" || event.ctrlKey || event.metaKey || event.target.matches("input:not([type=checkbox]), textarea, select, dialog *")) return;
    const box = document.activeElement?.closest("tr")?.querySelector("[data-pick]");
    if (!box) return;
    box.checked = !box.checked;
    aim();
  });
  aim();
}

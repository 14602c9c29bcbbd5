// A DAG's page: its graph, its runs as they go, and the form that runs it.
import { post } from "./act.js";
import { Graph } from "./graph.js";
import { grid } from "./grid.js";
import { followRuns } from "./runs.js";

const AGAIN_MS = 1000;
new Graph(document.querySelector("[data-graph]"), (box) => {
  if (!box.classList.contains("many")) return;
  const to = new URL(location.href);
  to.searchParams.append("open", box.dataset.first);
  location.assign(to);
});

const runs = grid(document.querySelector("[data-grid]"), document.querySelector("[data-runs-url]").dataset.runsUrl);
let asked = null;
runs.read();
followRuns(() => {
  asked ??= setTimeout(() => {
    asked = null;
    runs.read();
  }, AGAIN_MS);
});

const dialog = document.querySelector("#run-form");
if (dialog) {
  const form = dialog.querySelector("form");
  const problem = dialog.querySelector("[data-run-problem]");
  for (const button of document.querySelectorAll("[data-run-now]")) button.addEventListener("click", () => dialog.showModal());
  dialog.querySelector("[data-run-close]").addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { ok, body } = await post(form.dataset.runForm, form);
    if (ok) return location.assign(body.go);
    const fields = new Map([...form.querySelectorAll("[data-field]")].map((one) => [one.dataset.field, one]));
    for (const field of fields.values()) field.querySelector("em").hidden = true;
    const rest = [body.problem];
    for (const { field, problem: words } of body.errors ?? []) {
      const place = fields.get(field)?.querySelector("em");
      if (!place) {
        rest.push(words);
        continue;
      }
      place.textContent = place.hidden ? words : `${place.textContent} ${words}`;
      place.hidden = false;
    }
    problem.textContent = rest.join(" ");
    problem.hidden = false;
    form.querySelector("em:not([hidden])")?.closest("label").querySelector("input, select, textarea").focus();
  });
}

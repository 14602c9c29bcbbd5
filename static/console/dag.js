// A DAG's page: its graph, its runs as they go, and the form that runs it.
import { Graph } from "./graph.js";
import { grid } from "./grid.js";
import { runForm } from "./run_form.js";
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

runForm();

// Runs × nodes: only the rows in sight exist, however many nodes there are.
import { Window } from "./log_window.js";
import { clockTime } from "./times.js";

const SVG = "http://www.w3.org/2000/svg";
const icons = new URL("icons.svg", import.meta.url).pathname;

function icon(state) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `${icons}#${state}`);
  svg.append(use);
  return svg;
}

function link(href, state, title) {
  const made = document.createElement("a");
  made.href = href;
  made.dataset.state = state;
  made.title = title;
  made.append(icon(state));
  return made;
}

// element: the grid. runs: the address below which runs are.
export function grid(element, runs) {
  let shown = { runs: [], nodes: [], states: {} };
  const head = element.querySelector("[data-grid-head]");
  const box = element.querySelector("[data-grid-rows]");
  const rows = new Window(box, (row, index) => {
    const node = shown.nodes[index];
    const name = document.createElement("span");
    name.textContent = node.name;
    name.title = node.gone ? `${node.name}: not in the version in force` : node.name;
    name.classList.toggle("gone", node.gone);
    row.append(name);
    shown.runs.forEach((run, at) => {
      const state = shown.states[node.cells[at]];
      const to = `${runs}${run.id}/#node=${encodeURIComponent(node.name)}`;
      row.append(state ? link(to, state, `${node.name}, ${clockTime(new Date(run.at))}: ${state.replace("_", " ")}`) : document.createElement("i"));
    });
  });

  function draw() {
    const corner = document.createElement("span");
    head.replaceChildren(corner, ...shown.runs.map((run) => link(`${runs}${run.id}/`, run.state, `${clockTime(new Date(run.at))}: ${run.title}`)));
    const empty = shown.runs.length === 0;
    element.querySelector("[data-grid-empty]").hidden = !empty;
    head.hidden = empty;
    box.hidden = empty;
    box.style.height = `${Math.min(420, shown.nodes.length * 18 + 2)}px`;
    rows.replace(shown.nodes.length, {});
  }

  document.addEventListener("zone", draw);
  return {
    async read() {
      const answer = await fetch(element.dataset.grid).catch(() => null);
      element.removeAttribute("aria-busy");
      element.querySelector("[data-grid-wait]")?.remove();
      if (!answer?.ok) return;
      shown = await answer.json();
      draw();
    },
  };
}

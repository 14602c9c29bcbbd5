// A run as it goes: boxes, curves and the head change as the server tells; no box goes backwards.
import { fit } from "./act.js";
import { Graph } from "./graph.js";
import { Panel } from "./panel.js";
import { follow } from "./socket.js";
import { localise, tick } from "./times.js";

const page = document.querySelector("[data-live-url]");
const head = document.querySelector("#head");
const buttons = document.querySelectorAll("[data-acts] [data-when]");
const timeline = document.querySelector("#gantt");
const TIMELINE_MS = 2000;
const nextFrame = (act) => requestAnimationFrame(() => requestAnimationFrame(act)); // the canvas has its new size then
const panel = new Panel(document.querySelector("[data-panel]"), page.dataset.nodesUrl, (box) => nextFrame(() => graph.show(box)));

function opened(box) {
  if (box.classList.contains("many")) {
    const to = new URL(location.href);
    to.searchParams.append("open", box.dataset.first);
    location.assign(to);
  } else panel.open(box.dataset.node);
}
const graph = new Graph(document.querySelector("[data-graph]"), opened);

function isLater([revision, version], box) {
  const [had, of] = box.dataset.version.split(".").map(Number);
  return revision > had || (revision === had && version >= of);
}

function text(box, told) {
  const [name, line] = box.querySelectorAll("text");
  name.textContent = told.name;
  line.dataset.line = told.line;
  for (const what of ["since", "until"]) {
    if (told[what]) line.dataset[what] = told[what];
    else delete line.dataset[what];
  }
  line.textContent = told.line;
}

function change(told) {
  const box = document.getElementById(`b${told.at}`);
  if (!box || !isLater(told.version, box)) return false;
  const moved = box.dataset.state !== told.state;
  box.dataset.version = told.version.join(".");
  box.dataset.state = told.state;
  box.setAttribute("aria-label", told.said);
  box.querySelector("title").textContent = told.said;
  text(box, told);
  const icon = box.querySelector("use");
  if (moved) icon.setAttribute("href", icon.getAttribute("href").replace(/#.*/, `#${told.state}`));
  box.querySelector(".foot").setAttribute("width", told.foot ?? 0);
  for (const [edge, state] of told.edges) document.getElementById(`e${edge}`).dataset.edge = state;
  tick(box);
  graph.map.paint(box);
  if (moved) flash(box);
  return true;
}

function flash(box) {
  box.classList.add("flash");
  setTimeout(() => box.classList.remove("flash"), 250);
}

let drawn = Number(page.dataset.version);
let drawing = null;
async function redraw() {
  drawing = null;
  const answer = await fetch(page.dataset.ganttUrl).catch(() => null);
  if (!answer?.ok) return;
  timeline.innerHTML = await answer.text(); // escaped by the server's templates
  localise(timeline);
}

follow(page, (message) => {
  const changed = message.boxes.filter(change);
  const version = Number(head.firstElementChild.dataset.runVersion);
  if (message.head && message.version >= version) {
    head.innerHTML = message.head; // likewise
    localise(head);
    fit(buttons, head.firstElementChild.dataset.standing);
  }
  if (changed.length) panel.changed(changed);
  if (message.version > drawn) {
    drawn = message.version;
    drawing ??= setTimeout(redraw, TIMELINE_MS);
  }
});

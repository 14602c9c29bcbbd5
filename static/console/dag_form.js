// A DAG as text: checked and drawn by the server while one types, saved over the version that one has seen.
import { freshKey, post } from "./act.js";
import { Graph } from "./graph.js";
import { point } from "./text_lines.js";
import { localise } from "./times.js";
import { tell as tellAt } from "./told.js";

const CHECK_MS = 300;
const form = document.querySelector("[data-dag-editor]");
const part = (selector) => form.querySelector(selector);
let waiting = null;
let asked = 0;
let drawn = null;

const tell = (words, theirs) => tellAt(part("[data-problem]"), words, theirs);

// While the text has errors, the last graph stays; a graph that is as it was keeps its place and scale.
function draw(graph) {
  if (graph === null || graph === drawn) return;
  drawn = graph;
  part("[data-drawn]").innerHTML = graph; // escaped by the server
  new Graph(part("[data-graph]"), () => {});
}

// An answer that comes after a later question is dropped.
async function check() {
  clearTimeout(waiting);
  const mine = ++asked;
  const { ok, body } = await post(form.dataset.check, form);
  if (mine !== asked) return;
  if (!ok) return tell(body.problem);
  part("[data-beside]").innerHTML = body.beside; // escaped by the server's templates
  localise(part("[data-beside]"));
  form.elements.text.setAttribute("aria-invalid", body.errors.length > 0);
  draw(body.graph);
  part("[data-go]").disabled = !body.ready;
}

if (form) {
  form.elements.key.value = freshKey(); // of this look at the page: what is sent again after a lost answer is done once
  form.addEventListener("input", () => {
    part("[data-go]").disabled = true; // what it would be is not known yet
    tell("");
    clearTimeout(waiting);
    waiting = setTimeout(check, CHECK_MS);
  });
  form.addEventListener("click", (event) => {
    const number = event.target.closest("[data-line]")?.dataset.line;
    if (number) point(form.elements.text, Number(number));
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const go = part("[data-go]");
    if (go.disabled) return;
    go.disabled = true;
    clearTimeout(waiting);
    const { ok, body } = await post(form.dataset.save, form);
    if (ok) return location.assign(body.go);
    go.disabled = false;
    tell([body.problem, ...(body.errors ?? []).map((one) => `${one.pointer} ${one.problem}`)].join(" "), body.theirs);
  });
  check();
}

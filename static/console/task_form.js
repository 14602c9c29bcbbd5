// The form of a task: checked by the server while one types, as fields or as JSON, saved over the version one has seen.
import { freshKey, post } from "./act.js";
import { placeErrors } from "./run_form.js";
import { localise } from "./times.js";
import { tell as tellAt } from "./told.js";
import { OF_BROWSER, OF_TASK, chosen } from "./zones.js";

const CHECK_MS = 300;
const form = document.querySelector("[data-editor]");
const part = (selector) => form.querySelector(selector);
let waiting = null;
let asked = 0;
const touched = new Set(); // names of fields that somebody has typed in
let told = Boolean(form?.elements.version); // whether all that is wrong is said: of a new task, after a try to make it

const mode = () => form.elements.mode.value;

// A pointer and those above it: an error inside /parameters/amount stands at /parameters, if nothing is closer.
function above({ pointer }) {
  const found = [];
  for (let at = pointer; at !== ""; at = at.slice(0, at.lastIndexOf("/"))) found.push(at);
  return mode() === "json" ? [""] : found;
}

// What nobody has come to yet is no mistake.
const seen = (error) => told || mode() === "json" || above(error).some((at) => touched.has(at));

function show(all) {
  const errors = all.filter(seen);
  const worded = mode() === "json" ? errors.map((one) => ({ ...one, problem: `${one.pointer || "/"}: ${one.problem}` })) : errors;
  placeErrors(form, worded, above);
  for (const field of form.querySelectorAll("[data-field]")) {
    const wrong = !field.querySelector("em").hidden;
    field.querySelector("input, select, textarea").setAttribute("aria-invalid", wrong);
    if (wrong) field.closest("details")?.setAttribute("open", "");
  }
  const list = part("[data-errors]");
  if (!list) return errors.length;
  for (const line of list.querySelectorAll("[data-pointer]")) line.hidden = !seen({ pointer: line.dataset.pointer });
  list.hidden = !list.querySelector("[data-pointer]:not([hidden])");
  return errors.length;
}

// Fields that belong to other types of schedule or handler are hidden.
function fit() {
  for (const field of form.querySelectorAll("[data-of]")) {
    const [group, types] = field.dataset.of.split(": ");
    field.hidden = !types.split(" ").includes(part(`[data-type-of="${group}"]`).value);
  }
}

function fill(fields) {
  for (const [pointer, value] of Object.entries(fields)) {
    const input = form.elements[pointer];
    if (!input) continue;
    if (input.type === "checkbox") input.checked = value;
    else input.value = value;
    if (input.selectedIndex === -1) input.value = ""; // the default, said in so many words
  }
  fit();
}

// Ask what the document would mean; an answer that comes after a later question is dropped.
async function check() {
  clearTimeout(waiting);
  const mine = ++asked;
  const { ok, body } = await post(form.dataset.check, form);
  if (mine !== asked) return null;
  if (!ok) {
    tell(body.problem);
    return null;
  }
  part("[data-beside]").innerHTML = body.beside; // escaped by the server's templates
  localise(part("[data-beside]"));
  const wrong = show(body.errors);
  part("[data-go]").disabled = body.errors.length > 0 ? wrong > 0 : !body.changed;
  return body;
}

const tell = (words, theirs) => tellAt(part("[data-problem]"), words, theirs);

form?.addEventListener("input", (event) => {
  touched.add(event.target.name);
  fit();
  tell("");
  clearTimeout(waiting);
  waiting = setTimeout(check, CHECK_MS);
});

form?.addEventListener("click", async (event) => {
  const to = event.target.closest("[data-mode]")?.dataset.mode;
  if (!to || to === mode()) return;
  const found = await check();
  if (!found || found.text === null) return; // what is no JSON cannot be shown as fields; the error says so
  form.elements.document.value = found.text;
  if (to === "form") fill(found.fields);
  form.elements.mode.value = to;
  for (const view of form.querySelectorAll("[data-view]")) view.hidden = view.dataset.view !== to;
  for (const tab of form.querySelectorAll("[data-mode]")) tab.setAttribute("aria-selected", tab.dataset.mode === to);
  check();
});

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const go = part("[data-go]");
  if (go.disabled) return;
  go.disabled = true;
  clearTimeout(waiting);
  told = true;
  const { ok, body } = await post(form.dataset.save, form);
  if (ok) return location.assign(body.go);
  go.disabled = false;
  show(body.errors ?? []);
  const rest = mode() === "json" ? [] : (body.errors ?? []).filter((one) => !above(one).some((at) => form.querySelector(`[data-field="${at}"]`)));
  tell([body.problem, ...rest.map((one) => one.problem)].join(" "), body.theirs);
  form.querySelector("em:not([hidden])")?.closest("label").querySelector("input, select, textarea").focus();
});

// Taken from the list: the name, and parameters to begin with where nobody has written any.
let begun = null;
form?.addEventListener("click", (event) => {
  const taken = event.target.closest("[data-take]");
  if (!taken) return;
  form.elements["/handler/name"].value = taken.dataset.take;
  touched.add("/handler/name").add("/parameters");
  const parameters = form.elements["/parameters"];
  if (["", "{}", begun].includes(parameters.value.trim())) {
    begun = JSON.stringify(JSON.parse(taken.dataset.skeleton), null, 2);
    parameters.value = begun;
  }
  check();
  press();
});

function press() {
  for (const one of form.querySelectorAll("[data-take]")) one.setAttribute("aria-pressed", one.dataset.take === form.elements["/handler/name"].value);
}

// A file that is saved in the playground shows within seconds.
const HANDLERS_MS = 2000;
const handlers = form?.querySelector("[data-handlers]");
async function look() {
  if (!document.hidden) {
    const answer = await fetch(handlers.dataset.handlers).catch(() => null);
    const told = answer?.ok ? await answer.json() : null;
    if (told && told.version !== handlers.dataset.version) {
      handlers.dataset.version = told.version;
      handlers.querySelector("[data-offers]").innerHTML = told.html; // escaped by the server's templates
      press();
      check();
    }
  }
  setTimeout(look, HANDLERS_MS);
}

if (form) {
  form.elements.key.value = freshKey(); // of this look at the page: what is sent again after a lost answer is done once
  if (!told) form.elements["/schedule/timezone"].value = chosen && chosen !== OF_TASK ? chosen : OF_BROWSER;
  check();
  form.elements["/handler/name"].addEventListener("input", press);
  press();
  setTimeout(look, HANDLERS_MS);
}

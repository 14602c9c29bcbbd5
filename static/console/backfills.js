// The form of a backfill: what it would start is shown while one types, and asked about before it starts.
import { freshKey, post } from "./act.js";
import { placeErrors } from "./run_form.js";
import { localise } from "./times.js";
import { OF_BROWSER, OF_TASK, chosen } from "./zones.js";

const CHECK_MS = 300;
const form = document.querySelector("[data-backfill]");
const dialog = document.querySelector("#backfill");

if (form) {
  const part = (root, name) => root.querySelector(`[data-${name}]`);
  const go = part(form, "go");
  const ahead = document.querySelector("[data-ahead]");
  const start = part(dialog, "go");
  const typed = part(dialog, "typed");
  const { zone, expected, key } = form.elements;
  let waiting = null;
  let asked = 0;
  let found = null; // what the server says of the form as it stands

  // The zone that the reader sees all times in stands beside the schedule's.
  const own = chosen && chosen !== OF_TASK ? chosen : OF_BROWSER;
  if (![...zone.options].some((one) => one.value === own)) zone.add(new Option(`${own}, yours`, own));

  function wrong(root, words) {
    part(root, "problem").textContent = words;
    part(root, "problem").hidden = !words;
  }

  function show(body) {
    const rest = placeErrors(form, body.errors ?? []).map((one) => one.problem);
    for (const field of form.querySelectorAll("[data-field]")) field.querySelector("input, select, textarea").setAttribute("aria-invalid", String(!field.querySelector("em").hidden));
    wrong(form, [body.problem, ...rest].filter(Boolean).join(" "));
  }

  async function check() {
    const turn = ++asked;
    ahead.setAttribute("aria-busy", "true");
    const { body } = await post(form.dataset.check, form);
    if (turn !== asked) return;
    ahead.removeAttribute("aria-busy");
    found = body.total ? body : null;
    go.disabled = !found;
    ahead.innerHTML = body.beside || '<p class="quiet">What would run is shown here once the form is right.</p>'; // escaped by the server's templates
    localise(ahead);
    show(body);
  }

  form.addEventListener("input", () => {
    found = null;
    go.disabled = true;
    clearTimeout(waiting);
    waiting = setTimeout(check, CHECK_MS);
  });

  const mayGo = () => (start.disabled = Boolean(found.typed) && typed.querySelector("input").value.trim() !== found.typed);

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!found) return;
    dialog.querySelector("form").reset();
    key.value = freshKey();
    expected.value = found.total;
    dialog.querySelector("h2").textContent = found.title;
    part(dialog, "text").textContent = found.text;
    typed.hidden = !found.typed;
    typed.querySelector("b").textContent = found.typed;
    wrong(dialog, "");
    mayGo();
    dialog.showModal();
    (found.typed ? typed.querySelector("input") : start).focus();
  });

  typed.addEventListener("input", mayGo);
  part(dialog, "closes").addEventListener("click", () => dialog.close());
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (start.disabled) return;
    start.disabled = true;
    const { ok, body } = await post(form.dataset.backfill, form);
    if (ok) return location.reload();
    start.disabled = false;
    wrong(dialog, [body.problem, ...(body.errors ?? []).map((one) => one.problem)].join(" "));
  });

  check();
}

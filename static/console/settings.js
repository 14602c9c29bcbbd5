// The settings: forms in dialogs, sent by POST; what is wrong with a field is said beside it, and a new key shown once.
import { freshKey, post } from "./act.js";
import { placeErrors } from "./run_form.js";

// A pointer and those above it, the closest first: an error of one scope stands at the scopes.
function above({ pointer }) {
  const found = [];
  for (let at = pointer; at !== ""; at = at.slice(0, at.lastIndexOf("/"))) found.push(at);
  return found;
}

// Fields that belong to other choices are hidden.
function fit(form) {
  for (const field of form.querySelectorAll("[data-of]")) {
    const [name, values] = field.dataset.of.split(": ");
    field.hidden = !values.split(" ").includes(form.elements[name].value);
  }
}

function wrong(form, { problem = "", errors = [], used_by = [] }) {
  const place = form.querySelector("[data-problem]");
  const rest = placeErrors(form, errors, above).map((one) => one.problem);
  for (const field of form.querySelectorAll("[data-field]")) {
    field.querySelector("input, select, textarea")?.setAttribute("aria-invalid", !field.querySelector("em").hidden);
  }
  form.querySelector("[data-field] em:not([hidden])")?.closest("[data-field]").querySelector("input, select, textarea")?.focus();
  if (!place) return;
  const links = used_by.map(({ name, address }) => Object.assign(document.createElement("a"), { href: address, textContent: ` ${name}` }));
  place.replaceChildren([problem, ...rest].join(" "), ...links);
  place.hidden = !problem;
}

// Every change of a form makes another click of it: the same one sent twice is done once.
async function send(form, url) {
  const go = form.querySelector("[data-go]");
  go.disabled = true;
  const { ok, body } = await post(url, form);
  go.disabled = false;
  if (ok && body.key) return showKey(body);
  if (ok) return location.reload();
  wrong(form, body);
}

function showKey({ key, name }) {
  document.querySelector("#make").close();
  const dialog = document.querySelector("#shown");
  dialog.querySelector("[data-shown-key]").textContent = key;
  dialog.querySelector("[data-shown-name]").textContent = name;
  dialog.addEventListener("close", () => location.reload());
  dialog.querySelector("[data-kept]").addEventListener("click", () => dialog.close());
  dialog.showModal();
}

for (const form of document.querySelectorAll("[data-form]")) {
  const dialog = form.closest("dialog");
  const key = form.querySelector("[data-key]");
  for (const button of document.querySelectorAll(`[data-opens="${dialog.id}"]`)) {
    button.addEventListener("click", () => {
      form.reset();
      key.value = freshKey();
      if (button.dataset.url) form.dataset.form = button.dataset.url;
      for (const place of form.querySelectorAll("[data-name]")) place.textContent = button.dataset.ofName;
      for (const name of ["store", "kind", "to", "severity"]) {
        if (button.dataset[name] !== undefined && form.elements[name]) form.elements[name].value = button.dataset[name];
      }
      fit(form);
      wrong(form, {});
      dialog.showModal();
      form.querySelector("label:not([hidden]) > :is(input, textarea, select)").focus();
    });
  }
  form.addEventListener("input", () => {
    key.value = freshKey();
    fit(form);
  });
  form.querySelector("[data-closes]").addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, form.dataset.form);
  });
}

for (const form of document.querySelectorAll("[data-sets]")) {
  const select = form.querySelector("select");
  form.addEventListener("change", () => {
    form.querySelector("[data-key]").value = freshKey();
    form.querySelector("[data-go]").hidden = select.selectedOptions[0].defaultSelected;
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, form.dataset.sets);
  });
}

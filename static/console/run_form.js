// The dialog that runs something now, with parameters: what is wrong with one is said beside it.
import { freshKey, post } from "./act.js";

// Put each problem beside its field; returns those whose field is not on the page.
export function placeErrors(form, errors, names = (error) => [error.field]) {
  const fields = new Map([...form.querySelectorAll("[data-field]")].map((one) => [one.dataset.field, one]));
  for (const field of fields.values()) field.querySelector("em").hidden = true;
  return errors.filter((error) => {
    const name = names(error).find((one) => fields.has(one) && !fields.get(one).hidden);
    const place = name === undefined ? null : fields.get(name).querySelector("em");
    if (!place) return true;
    place.textContent = place.hidden ? error.problem : `${place.textContent} ${error.problem}`;
    place.hidden = false;
    return false;
  });
}

export function runForm() {
  const dialog = document.querySelector("#run-form");
  if (!dialog) return;
  const form = dialog.querySelector("form");
  const go = form.querySelector(".btn.p");
  const key = form.querySelector("[data-run-key]");
  const problem = dialog.querySelector("[data-run-problem]");
  const open = () => {
    if (key) key.value = freshKey();
    dialog.showModal();
  };
  document.addEventListener("click", (event) => event.target.closest("[data-run-now]") && open());
  dialog.querySelector("[data-run-close]").addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    go.disabled = true;
    const { ok, body } = await post(form.dataset.runForm, form);
    if (ok) return location.assign(body.go);
    go.disabled = false;
    const rest = placeErrors(form, body.errors ?? []).map((one) => one.problem);
    problem.textContent = [body.problem, ...rest].join(" ");
    problem.hidden = false;
    form.querySelector("em:not([hidden])")?.closest("label").querySelector("input, select, textarea").focus();
  });
}

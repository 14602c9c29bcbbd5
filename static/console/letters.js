// Acts on many dead letters: how many they mean is asked first, and said again by typing it where nothing can be undone.
import { post, say } from "./act.js";

for (const dialog of document.querySelectorAll('dialog[id^="bulk-"]')) {
  const form = dialog.querySelector("form");
  const go = form.querySelector("[data-go]");
  const progress = form.querySelector("[data-progress]");
  const problem = form.querySelector("[data-problem]");
  const typed = form.querySelector("[data-typed]");
  let count = null;
  let stopped = false;

  const asked = () => `${typed.dataset.typed} ${count}`;
  const fits = () => !typed || typed.querySelector("input").value.trim() === asked();
  const mayGo = () => (go.disabled = !count || !fits() || !form.checkValidity());

  function wrong(words) {
    problem.textContent = words;
    problem.hidden = !words;
  }

  async function open() {
    form.reset();
    count = null;
    stopped = false;
    progress.hidden = true;
    wrong("");
    mayGo();
    dialog.showModal();
    const answer = await fetch(form.dataset.counts).catch(() => null);
    if (!answer?.ok) return wrong("How many there are cannot be told now. Close this and try again.");
    const told = await answer.json();
    count = told.count;
    form.elements.counted_at.value = told.counted_at;
    for (const place of form.querySelectorAll("[data-count]")) place.textContent = count.toLocaleString("en-GB");
    if (typed) typed.querySelector("b").textContent = asked();
    if (!count) wrong("There is none any more.");
    mayGo();
    form.querySelector("input:not([type=hidden]):not([type=checkbox]), textarea").focus();
  }

  async function send() {
    go.disabled = true;
    wrong("");
    let done = 0;
    for (;;) {
      const { ok, body } = await post(form.dataset.bulk, form);
      if (!ok) {
        go.disabled = false;
        return wrong([body.problem, ...(body.errors ?? []).map((one) => one.problem)].join(" "));
      }
      done += body.done ?? 0;
      if (body.again && !stopped) {
        progress.textContent = `${done.toLocaleString("en-GB")} done, ${body.left.toLocaleString("en-GB")} to go. Closing this stops it.`;
        progress.hidden = false;
        continue;
      }
      dialog.close();
      if (body.go) return location.assign(body.go);
      return say(done ? `${done.toLocaleString("en-GB")} discarded` : body.said);
    }
  }

  document.querySelector(`[data-opens="${dialog.id.slice(5)}"]`).addEventListener("click", open);
  form.addEventListener("input", mayGo);
  dialog.addEventListener("close", () => (stopped = true));
  form.querySelector("[data-closes]").addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!go.disabled) send();
  });
}

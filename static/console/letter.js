// One dead letter: its parameters are checked as JSON while they are typed, and by the server before anything runs.
import { freshKey, post } from "./act.js";

const form = document.querySelector("[data-letter]");
const editor = form.querySelector("textarea[name=parameters]");
const problem = form.querySelector("[data-problem]");
const go = form.querySelector("[data-go]");
const undo = form.querySelector("[data-undo]");

function wrong(words) {
  problem.textContent = words;
  problem.hidden = !words;
  editor?.setAttribute("aria-invalid", String(Boolean(words)));
}

// "line 3, column 5" of what the browser says of text that is no JSON.
function place(message, text) {
  const at = /position (\d+)/.exec(message);
  const offset = at ? Number(at[1]) : text.length;
  const before = text.slice(0, offset).split("\n");
  return `line ${before.length}, column ${before.at(-1).length + 1}`;
}

function check() {
  let words = "";
  try {
    const value = JSON.parse(editor.value);
    if (value === null || typeof value !== "object" || Array.isArray(value)) words = "Parameters are a JSON object, such as {}.";
  } catch (error) {
    const comma = /,\s*[}\]]/.test(editor.value) ? " A comma stands before a closing bracket." : "";
    words = `Not JSON yet: ${place(error.message, editor.value)}.${comma}`;
  }
  wrong(words);
  const edited = editor.value !== editor.defaultValue;
  go.disabled = Boolean(words);
  go.textContent = edited ? "Replay with these parameters" : "Replay";
  undo.hidden = !edited;
}

form.elements.key.value = freshKey(); // of this look at the page: what is sent again after a lost answer is done once
editor?.addEventListener("input", check);
if (editor) check(); // what was typed before this script came
form.addEventListener("reset", () => setTimeout(check));
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  go.disabled = true;
  const { ok, body } = await post(form.dataset.letter, form);
  if (ok) return location.assign(body.go);
  go.disabled = false;
  wrong([body.problem, ...(body.errors ?? []).map((one) => one.problem)].join(" "));
});

// A crontab as it is pasted: the server says of each line what it would be; nothing is written before "Import".
import { post, say } from "./act.js";
import { point } from "./text_lines.js";
import { localise } from "./times.js";
import { OF_BROWSER } from "./zones.js";

const CHECK_MS = 300;
const form = document.querySelector("[data-crontab]");
const text = form?.elements.text;
const go = form?.querySelector("[data-go]");
const lines = form?.querySelector("[data-lines]");
let waiting = null;
let asked = 0;

function wrong(body) {
  const place = form.querySelector("[data-problem]");
  place.textContent = body ? (body.errors ?? []).map((one) => one.problem).join(" ") || body.problem : "";
  place.hidden = !body;
}

function show(body) {
  lines.innerHTML = body.html; // escaped by the server's templates
  localise(lines);
  go.disabled = body.writes === 0;
  go.textContent = body.writes ? `Import ${body.writes} line${body.writes === 1 ? "" : "s"}` : "Import";
}

// An answer that comes after a later question is dropped.
async function check() {
  clearTimeout(waiting);
  go.disabled = true;
  const mine = ++asked;
  if (!text.value.trim()) return;
  const { ok, body } = await post(form.dataset.check, form);
  if (mine !== asked) return;
  wrong(ok ? null : body);
  if (ok) show(body);
}

function soon() {
  go.disabled = true; // what it would do is not known yet
  clearTimeout(waiting);
  waiting = setTimeout(check, CHECK_MS);
}

if (form) {
  form.elements.timezone.value = OF_BROWSER;
  form.querySelector("#zones").append(...(Intl.supportedValuesOf?.("timeZone") ?? ["UTC"]).map((name) => new Option(name, name)));
  form.addEventListener("input", soon);
  form.querySelector("[data-example]").addEventListener("click", () => {
    text.value = document.querySelector("[data-example-text]").content.textContent;
    check();
  });
  lines.addEventListener("click", (event) => {
    const number = event.target.closest("[data-line]")?.dataset.line;
    if (number) point(text, Number(number));
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    go.disabled = true;
    clearTimeout(waiting);
    asked += 1;
    const { ok, body } = await post(form.dataset.import, form);
    wrong(ok ? null : body);
    if (!ok) return (go.disabled = false);
    show(body);
    go.disabled = true; // all of it is there now
    go.textContent = "Imported";
    say(body.said);
  });
  if (text.value.trim()) check(); // a page that was gone back to
}

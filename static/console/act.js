// Buttons that do something: asked about in a dialog, sent by POST, answered in words.
const dialog = document.querySelector("#act");
const toast = document.querySelector("[data-toast]");
const TOAST_MS = 4000;
let told = null;

export function say(words) {
  toast.textContent = words;
  toast.hidden = false;
  clearTimeout(told);
  told = setTimeout(() => (toast.hidden = true), TOAST_MS);
}

// A word for one click: the same click sent twice is done once.
export function freshKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// POST a form; returns { ok, body }. What goes wrong on the way is a problem in words, too.
export async function post(url, form) {
  try {
    const answer = await fetch(url, { method: "POST", body: new FormData(form), headers: { Accept: "application/json" } });
    const isJson = answer.headers.get("Content-Type")?.startsWith("application/json");
    const body = isJson ? await answer.json() : { problem: `The server answered ${answer.status}. Load the page again.` };
    return { ok: answer.ok, body };
  } catch {
    return { ok: false, body: { problem: "The server cannot be reached. Nothing was done that we know of." } };
  }
}

if (dialog) {
  const part = (name) => dialog.querySelector(`[data-act-${name}]`);
  const form = dialog.querySelector("form");
  const go = part("go");
  const typed = part("typed").querySelector("input");
  let button = null;

  const mayGo = () => (go.disabled = Boolean(button.dataset.typed) && typed.value !== button.dataset.typed);

  function ask(asked) {
    button = asked;
    form.reset();
    part("key").value = freshKey();
    dialog.querySelector("h2").textContent = button.dataset.title;
    part("text").textContent = button.dataset.text;
    part("note").hidden = !button.dataset.note;
    part("note").querySelector("span").textContent = button.dataset.note ?? "";
    part("typed").hidden = !button.dataset.typed;
    part("typed").querySelector("b").textContent = button.dataset.typed ?? "";
    part("problem").hidden = true;
    go.textContent = button.dataset.label;
    go.classList.toggle("danger", "danger" in button.dataset);
    mayGo();
    dialog.showModal();
    (button.dataset.typed ? typed : button.dataset.note ? part("note").querySelector("textarea") : go).focus();
  }

  document.addEventListener("click", (event) => {
    const asked = event.target.closest("[data-act]");
    if (asked) ask(asked);
  });
  typed.addEventListener("input", mayGo);
  part("close").addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    go.disabled = true;
    const { ok, body } = await post(button.dataset.act, form);
    go.disabled = false;
    if (!ok) {
      part("problem").textContent = [body.problem, ...(body.errors ?? []).map((one) => one.problem)].join(" ");
      part("problem").hidden = false;
      if (body.reload) dialog.addEventListener("close", () => location.reload(), { once: true });
      return;
    }
    dialog.close();
    if (body.go) location.assign(body.go);
    else if (body.reload) location.reload();
    else say(body.said);
  });
}

// Show the buttons whose words all hold of a standing such as "running paused"; `!word`: must not hold.
export function fit(buttons, standing) {
  const holds = new Set(standing.split(" "));
  for (const one of buttons) {
    const words = one.dataset.when.split(" ").filter(Boolean);
    one.hidden = !words.every((word) => (word[0] === "!" ? !holds.has(word.slice(1)) : holds.has(word)));
  }
}

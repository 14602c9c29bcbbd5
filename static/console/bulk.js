// Acts on many: how many they mean is asked first, and said again by typing it where they are many or cannot be undone.
import { freshKey, post, say } from "./act.js";
import { picked } from "./picks.js";

const figures = (count) => count.toLocaleString("en-GB");

class Bulk {
  constructor(dialog) {
    this.dialog = dialog;
    this.form = dialog.querySelector("form");
    for (const name of ["go", "progress", "problem", "typed", "refused", "closes", "plural"]) this[name] = this.form.querySelector(`[data-${name}]`);
    this.label = this.closes.textContent;
    this.count = null;
    document.querySelector(`[data-opens="${dialog.id.slice(5)}"]`).addEventListener("click", () => this.open());
    this.form.addEventListener("input", () => this.mayGo());
    dialog.addEventListener("close", () => (this.stopped = true));
    this.closes.addEventListener("click", () => dialog.close());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.go.disabled) this.send();
    });
  }

  get asked() {
    return `${this.typed.dataset.typed} ${this.more ? "all" : this.count}`;
  }

  mayGo() {
    const fits = !this.typed || this.typed.hidden || this.typed.querySelector("input").value.trim() === this.asked;
    this.go.disabled = !this.count || !fits || !this.form.checkValidity();
  }

  wrong(words) {
    this.problem.textContent = words;
    this.problem.hidden = !words;
  }

  async open() {
    const { form, dialog } = this;
    form.reset();
    this.count = null;
    this.stopped = false;
    this.progress.hidden = true;
    this.go.hidden = false;
    this.closes.textContent = this.label;
    if (this.refused) this.refused.hidden = true;
    if (form.elements.key) form.elements.key.value = freshKey();
    if (form.elements.behind) form.elements.behind.value = "";
    this.wrong("");
    this.mayGo();
    dialog.showModal();
    const told = await this.means();
    if (!told) return this.wrong("How many there are cannot be told now. Close this and try again.");
    this.count = told.count;
    this.more = told.more;
    if (told.counted_at) form.elements.counted_at.value = told.counted_at;
    for (const place of form.querySelectorAll("[data-count]")) place.textContent = (told.more ? "more than " : "") + figures(told.count);
    if (this.plural) this.plural.hidden = told.count === 1;
    if (this.typed) {
      this.typed.hidden = told.count <= Number(this.typed.dataset.typedAbove ?? 0);
      this.typed.querySelector("b").textContent = this.asked;
    }
    if (!this.count) this.wrong("There is none any more.");
    this.mayGo();
    (form.querySelector("label:not([hidden]) > input:not([type=hidden]):not([type=checkbox]):not([type=radio]), label:not([hidden]) > textarea") ?? this.go).focus();
  }

  // What it is for: the chosen rows, or else what the server counts.
  async means() {
    const rows = picked();
    const place = this.form.querySelector("[data-ids]");
    place?.replaceChildren(
      ...rows.map((id) => Object.assign(document.createElement("input"), { type: "hidden", name: "id", value: id })),
    );
    const words = this.form.querySelector("[data-of-filter]");
    if (words) words.hidden = rows.length > 0;
    const counts = this.form.dataset.countsChosen;
    if (place && rows.length && !counts) return { count: rows.length };
    const answer = await fetch(counts ? `${counts}&${new URLSearchParams(rows.map((id) => ["id", id]))}` : this.form.dataset.counts).catch(() => null);
    return answer?.ok ? answer.json() : null;
  }

  async send() {
    this.go.disabled = true;
    this.wrong("");
    const refused = [];
    let done = 0;
    for (;;) {
      const { ok, body } = await post(this.form.dataset.bulk, this.form);
      if (!ok) {
        this.go.disabled = false;
        return this.wrong([body.problem, ...(body.errors ?? []).map((one) => one.problem)].join(" "));
      }
      done += body.done ?? 0;
      refused.push(...(body.refused ?? []));
      if (body.again && !this.stopped) {
        if (body.behind) this.form.elements.behind.value = body.behind;
        const left = body.left ?? Math.max(0, this.count - done - refused.length);
        this.progress.textContent = `${figures(done)} done, ${figures(left)} to go. Closing this stops it.`;
        this.progress.hidden = false;
        continue;
      }
      const gone = body.word && !body.go && !this.more && !this.stopped ? this.count - done - refused.length : 0;
      document.dispatchEvent(new CustomEvent("bulk-done"));
      if (refused.length || gone > 0) {
        if (body.go) this.dialog.addEventListener("close", () => location.assign(body.go), { once: true });
        return this.tell(`${figures(done)} ${body.word}`, refused, gone);
      }
      this.dialog.close();
      if (body.go) return location.assign(body.go);
      return say(done ? `${figures(done)} ${body.word ?? "discarded"}` : body.said);
    }
  }

  // Not all of it came about: who was refused, and why, stays to be read.
  tell(done, refused, gone) {
    const parts = [done];
    if (refused.length) parts.push(`${figures(refused.length)} refused`);
    if (gone > 0) parts.push(`${figures(gone)} had moved on by then`);
    this.refused.querySelector("p").textContent = parts.join(", ");
    this.refused.querySelector("ul").replaceChildren(
      ...refused.slice(0, 200).map((one) => {
        const line = document.createElement("li");
        const name = document.createElement("bdi");
        name.textContent = one.task || one.id;
        line.append(name, ` ${one.why}`);
        return line;
      }),
    );
    this.refused.hidden = false;
    this.progress.hidden = true;
    this.go.hidden = true;
    if (this.typed) this.typed.hidden = true;
    this.closes.textContent = "Close";
    this.closes.focus();
  }
}

for (const dialog of document.querySelectorAll('dialog[id^="bulk-"]')) new Bulk(dialog);

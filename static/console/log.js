// A log that is looked at: its lines in a window, a search in what has come, one attempt of several, following the end.
import { Tail } from "./log_tail.js";
import { MOST_SHOWN, plain, show } from "./log_text.js";
import { Window } from "./log_window.js";
import { clockTime } from "./times.js";

const MOST_LINES = 500000; // in this page; the download has all
const [LEAST_PX, MOST_PX] = [56, 432];
const number = new Intl.NumberFormat("en");
const mark = (text, attempt) => JSON.stringify({ stream: "system", text, attempt });

export class Log {
  // panel: the element of _log_body.html. most: the pixels that its lines may take; more are scrolled.
  constructor(panel, { most = MOST_PX } = {}) {
    this.panel = panel;
    this.most = most;
    const find = (name) => panel.querySelector(`[data-log-${name}]`);
    [this.state, this.counted, this.found, this.search, this.follow, this.attempt] = ["state", "count", "found", "search", "follow", "attempt"].map(find);
    this.whole = panel.querySelector("dialog");
    this.view = new Window(find("lines"), (row, index) => this.draw(row, this.matches ? this.matches[index] : index));
    this.reset();
    this.listen();
  }

  // Follow the execution whose lines are there; what was shown of another goes.
  show(url) {
    this.stop();
    this.reset();
    this.tail = new Tail(url, { heard: (fresh, gap) => this.heard(fresh, gap), told: (words) => (this.state.textContent = words) });
  }

  stop() {
    this.tail?.stop();
    this.tail = null;
  }

  reset() {
    this.lines = []; // JSON texts; a row is parsed when it comes into sight
    this.matches = null; // indexes of the lines that are wanted; null: all are shown
    this.words = "";
    this.gone = 0;
    this.place = 0; // where the reader was before the search
    this.search.value = "";
    this.follow.checked = true;
    this.attempt.replaceChildren(new Option("all attempts", ""));
    this.attempt.hidden = true;
    this.panel.dataset.empty = "";
    this.state.textContent = "loading";
    this.view.replace(0);
    this.tell();
  }

  listen() {
    const { box } = this.view;
    let typed = null;
    document.addEventListener("zone", () => this.look());
    this.search.addEventListener("input", () => {
      clearTimeout(typed);
      typed = setTimeout(() => this.look(), 150);
    });
    this.attempt.addEventListener("change", () => this.look());
    this.follow.addEventListener("change", () => this.follow.checked && this.view.grow(this.view.count, { toEnd: true }));
    // Who scrolls up wants to read; who is back at the end wants to follow.
    box.addEventListener("wheel", (event) => event.deltaY < 0 && (this.follow.checked = false), { passive: true });
    box.addEventListener("scroll", () => this.view.scrolls && (this.follow.checked = this.view.atEnd), { passive: true });
  }

  draw(row, index) {
    const line = JSON.parse(this.lines[index]);
    row.dataset.stream = line.stream;
    if (line.level) row.dataset.level = line.level;
    const parts = ["b", "time", "span"].map((name) => document.createElement(name));
    parts[0].textContent = line.seq ?? "";
    if (line.time) {
      parts[1].textContent = `${clockTime(Date.parse(line.time))}.${line.time.slice(20, 23)}`;
      parts[1].dateTime = line.time;
      parts[1].title = `${line.time}, ${line.stream}`;
    }
    show(parts[2], line.text + (line.fields ? ` ${JSON.stringify(line.fields)}` : ""), this.words);
    if (line.level) {
      const level = document.createElement("i");
      level.textContent = line.level;
      parts.splice(2, 0, level);
    }
    if (line.text.length > MOST_SHOWN) parts.push(this.more(line.text));
    row.append(...parts);
  }

  more(text) {
    const all = document.createElement("button");
    all.textContent = `… all ${number.format(text.length)} characters`;
    all.addEventListener("click", () => {
      this.whole.querySelector("pre").textContent = plain(text);
      this.whole.showModal();
    });
    return all;
  }

  get count() {
    return (this.matches ?? this.lines).length;
  }

  tell() {
    this.view.box.style.height = `${Math.max(LEAST_PX, Math.min(this.most, 18 * this.count + 2))}px`; // no empty box
    const { length } = this.lines;
    this.counted.textContent = length ? `${number.format(length)} line${length === 1 ? "" : "s"}${this.gone ? `, ${number.format(this.gone)} older ones only in the download` : ""}` : "";
    this.found.textContent = this.words ? `${number.format(this.matches.length)} found` : "";
  }

  heard(fresh, { attempt, isNew, missing }) {
    if (isNew) fresh.unshift(mark(`attempt ${attempt}`, attempt));
    if (missing > 0) fresh.unshift(mark(`… ${number.format(missing)} lines are missing here`, attempt));
    if (![...this.attempt.options].some((one) => one.value === String(attempt))) this.attempt.add(new Option(`attempt ${attempt}`, attempt));
    this.attempt.hidden = this.attempt.options.length < 3;
    this.add(fresh);
  }

  add(fresh) {
    this.panel.removeAttribute("data-empty");
    const from = this.lines.length;
    for (const line of fresh) this.lines.push(line);
    if (this.matches) for (let at = from; at < this.lines.length; at += 1) if (this.wants(this.lines[at])) this.matches.push(at);
    if (this.lines.length > MOST_LINES) {
      this.gone += this.lines.length - MOST_LINES;
      this.lines = this.lines.slice(-MOST_LINES);
      this.look();
    } else {
      this.view.grow(this.count, { toEnd: this.follow.checked });
      this.tell();
    }
  }

  wants(text) {
    const line = JSON.parse(text);
    if (this.attempt.value && String(line.attempt) !== this.attempt.value) return false;
    return !this.words || plain(line.text).toLowerCase().includes(this.words);
  }

  look() {
    const wasNarrow = this.matches !== null;
    this.words = this.search.value.trim().toLowerCase();
    const isNarrow = Boolean(this.words || this.attempt.value);
    if (isNarrow && !wasNarrow) this.place = this.view.box.scrollTop;
    this.matches = isNarrow ? [...this.lines.keys()].filter((at) => this.wants(this.lines[at])) : null;
    const following = this.follow.checked;
    this.view.replace(this.count, { toEnd: following });
    if (!following) this.view.box.scrollTop = isNarrow ? 0 : this.place; // back to where the reader was before the search
    this.tell();
  }
}

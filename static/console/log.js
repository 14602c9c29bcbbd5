// The log of an execution: the live tail, a search in what has come, and following the end.
import { MOST_SHOWN, plain, show } from "./log_text.js";
import { Window } from "./log_window.js";
import { clockTime } from "./times.js";

const MOST_LINES = 500000; // in this page; the download has all
const AGAIN_MS = 3000;
const [LEAST_PX, MOST_PX] = [56, 432];
const panel = document.querySelector("[data-log]");
const find = (name) => panel.querySelector(`[data-log-${name}]`);
const [state, counted, found, search, follow] = ["state", "count", "found", "search", "follow"].map(find);
const whole = panel.querySelector("dialog");
const number = new Intl.NumberFormat("en");

let lines = []; // JSON texts; a row is parsed when it comes into sight
let matches = null; // indexes of the lines that contain the words; null: all are shown
let words = "";
let last = ""; // the id of the last line: TOKEN-SEQUENCE
let gone = 0;
let place = 0; // where the reader was before the search

const view = new Window(find("lines"), (row, index) => {
  const line = JSON.parse(lines[matches ? matches[index] : index]);
  row.dataset.stream = line.stream;
  if (line.level) row.dataset.level = line.level;
  const parts = ["b", "time", "span"].map((name) => document.createElement(name));
  parts[0].textContent = line.seq ?? "";
  if (line.time) {
    parts[1].textContent = `${clockTime(Date.parse(line.time))}.${line.time.slice(20, 23)}`;
    parts[1].dateTime = line.time;
    parts[1].title = `${line.time}, ${line.stream}`;
  }
  const fields = line.fields ? ` ${JSON.stringify(line.fields)}` : "";
  show(parts[2], line.text + fields, words);
  if (line.level) {
    const level = document.createElement("i");
    level.textContent = line.level;
    parts.splice(2, 0, level);
  }
  if (line.text.length > MOST_SHOWN) {
    const all = document.createElement("button");
    all.textContent = `… all ${number.format(line.text.length)} characters`;
    all.addEventListener("click", () => {
      whole.querySelector("pre").textContent = plain(line.text);
      whole.showModal();
    });
    parts.push(all);
  }
  row.append(...parts);
});

const contains = (text) => plain(JSON.parse(text).text).toLowerCase().includes(words);
const mark = (text, attempt) => JSON.stringify({ stream: "system", text, attempt });

function tell() {
  view.box.style.height = `${Math.max(LEAST_PX, Math.min(MOST_PX, 18 * (matches ?? lines).length + 2))}px`; // no empty box
  counted.textContent = `${number.format(lines.length)} line${lines.length === 1 ? "" : "s"}${gone ? `, ${number.format(gone)} older ones only in the download` : ""}`;
  found.textContent = matches ? `${number.format(matches.length)} found` : "";
}

function add(fresh) {
  panel.removeAttribute("data-empty");
  const from = lines.length;
  for (const line of fresh) lines.push(line);
  if (matches) for (let at = from; at < lines.length; at += 1) if (contains(lines[at])) matches.push(at);
  if (lines.length > MOST_LINES) {
    gone += lines.length - MOST_LINES;
    lines = lines.slice(-MOST_LINES);
    return look();
  }
  view.grow(matches ? matches.length : lines.length, { toEnd: follow.checked });
  tell();
}

function look() {
  const before = words;
  words = search.value.trim().toLowerCase();
  if (words && !before) place = view.box.scrollTop;
  matches = words ? [...lines.keys()].filter((at) => contains(lines[at])) : null;
  const following = follow.checked;
  view.replace(matches ? matches.length : lines.length, { toEnd: following });
  if (!following) view.box.scrollTop = words ? 0 : place; // back to where the reader was before the search
  tell();
}

function heard(event) {
  const fresh = event.data.split("\n");
  const first = JSON.parse(fresh[0]);
  const [token] = event.lastEventId.split("-");
  const [before, sequence] = last.split("-");
  const missing = first.seq - (before === token ? Number(sequence) : 0) - 1;
  if (before && before !== token) fresh.unshift(mark(`attempt ${first.attempt}`));
  if (missing > 0) fresh.unshift(mark(`… ${number.format(missing)} lines are missing here`));
  last = event.lastEventId;
  state.textContent = "live";
  add(fresh);
}

function open() {
  const url = `${panel.dataset.log}?grouped=true${last && `&cursor=${last}`}`;
  const source = new EventSource(url); // connects again by itself, and says behind which line
  source.addEventListener("lines", heard);
  source.addEventListener("open", () => (state.textContent = "live"));
  source.addEventListener("error", () => {
    state.textContent = source.readyState === EventSource.CLOSED ? "not to be had" : "reconnecting";
  });
  source.addEventListener("end", (event) => {
    source.close();
    const { status } = JSON.parse(event.data);
    const goesOn = status === "retrying" || status === "waiting";
    state.textContent = goesOn ? "ended; another attempt will follow" : lines.length ? "ended" : "nothing was printed";
    if (goesOn) setTimeout(open, AGAIN_MS);
  });
}

document.addEventListener("zone", look);
let typed = null;
search.addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(look, 150);
});
follow.addEventListener("change", () => follow.checked && view.grow(view.count, { toEnd: true }));
// Who scrolls up wants to read; who is back at the end wants to follow.
view.box.addEventListener("wheel", (event) => event.deltaY < 0 && (follow.checked = false), { passive: true });
view.box.addEventListener("scroll", () => view.scrolls && (follow.checked = view.atEnd), { passive: true });
open();

// Times in the zone that the viewer chose, durations and countdowns. The server sends UTC and agrees on the words
// (apps/console/wording.py); this page's clock is corrected by the server's.
import { OF_TASK, chosen, format, label, zone } from "./zones.js";

const offset = Date.parse(document.body.dataset.now) - Date.now();
const FAR_MS = 300 * 86400000; // beyond it a day needs its year
export const now = () => Date.now() + offset;
export const clockTime = (instant) => format("clock", instant, zone());

export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 59950) return `${(ms / 1000).toFixed(1)} s`;
  const two = (n) => String(n).padStart(2, "0");
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

// Its larger unit alone, where there is little room.
const brief = (ms) => duration(ms).replace(/^(\d+ (?:min|h|d)) .*/, "$1");
const countdown = (ms) => (ms < 60000 ? `${Math.max(0, Math.round(ms / 1000))} s` : duration(ms));

function inZone(instant, timeZone) {
  try {
    return `${format("whole", instant, timeZone)} ${timeZone}`;
  } catch {
    return ""; // a zone that this browser does not know
  }
}

// The zone of one element; UTC for a task's that this browser does not know.
function zoneOf(element) {
  const wanted = zone(element.dataset.zone);
  return inZone(0, wanted) ? wanted : "UTC";
}

// "08:00:00", "30 Nov 08:00:00" on another day, "1 Jan 2028 08:00:00" far away. With each task's zone, which one it is.
export function written(instant, timeZone) {
  const far = Math.abs(instant - now()) > FAR_MS;
  const today = format("day", instant, timeZone) === format("day", now(), timeZone);
  const day = far ? `${format("date", instant, timeZone)} ` : today ? "" : `${format("day", instant, timeZone)} `;
  return day + format("clock", instant, timeZone) + (chosen === OF_TASK ? ` ${format("short", instant, timeZone)}` : "");
}

function relative(instant) {
  const ms = instant - now();
  return ms > 0 ? `in ${countdown(ms)}` : `${countdown(-ms)} ago`;
}

// Write every <time> under `root` in the chosen zone; data-said-at: a text that ends in one; data-zone-name: the zone.
export function localise(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const instant = new Date(element.dateTime);
    const shown = zoneOf(element);
    const isShort = element.classList.contains("hm");
    element.textContent = isShort ? format("clock", instant, shown).slice(0, 5) : written(instant, shown);
    const zones = [...new Set([shown, element.dataset.zone || "UTC", "UTC"])];
    const { runs } = element.dataset;
    const moved = runs && `runs at ${written(new Date(runs), shown)}, moved by jitter or a retry`;
    element.title = [relative(instant), ...zones.map((name) => inZone(instant, name)), moved].filter(Boolean).join("\n");
  }
  for (const element of root.querySelectorAll("[data-said-at]")) {
    const words = `${element.dataset.said} ${written(new Date(element.dataset.saidAt), zoneOf(element))}`;
    if (element.localName === "title") element.textContent = words;
    else element.setAttribute("aria-label", words);
  }
  for (const element of root.querySelectorAll("[data-zone-name]")) element.textContent = label();
  for (const element of root.querySelectorAll("[data-other-zone]")) element.hidden = element.dataset.otherZone === label();
  for (const list of root.querySelectorAll("[data-times]")) {
    const first = list.querySelector("time[data-zone]");
    list.classList.toggle("one-zone", first !== null && zoneOf(first) === first.dataset.zone);
  }
  tick(root);
}

// Count on what runs and down to what is due.
export function tick(root) {
  for (const element of root.querySelectorAll("[data-since]")) {
    const { line, since } = element.dataset;
    element.textContent = (line ? `${line} · ` : "") + (element.localName === "text" ? brief : duration)(now() - Date.parse(since));
  }
  for (const element of root.querySelectorAll("[data-until]")) {
    const ms = Date.parse(element.dataset.until) - now();
    const lead = element.dataset.lead ?? element.dataset.line;
    element.textContent = ms > 0 ? `${lead} ${countdown(ms)}` : lead.replace(/(^| )in$/, "$1now");
  }
}

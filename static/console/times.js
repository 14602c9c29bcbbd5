// Times in the viewer's zone, durations and countdowns. The server sends UTC and agrees on the words
// (apps/console/wording.py); this page's clock is corrected by the server's.
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const offset = Date.parse(document.body.dataset.now) - Date.now();
export const now = () => Date.now() + offset;

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const whole = (timeZone) =>
  new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium", timeZone });

export const clockTime = (instant) => clock.format(instant);

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

const countdown = (ms) => (ms < 60000 ? `${Math.max(0, Math.round(ms / 1000))} s` : duration(ms));

function inZone(instant, timeZone) {
  try {
    return `${whole(timeZone).format(instant)} ${timeZone}`;
  } catch {
    return ""; // a zone that this browser does not know
  }
}

function relative(instant) {
  const ms = instant - now();
  return ms > 0 ? `in ${countdown(ms)}` : `${countdown(-ms)} ago`;
}

// Write every <time> under `root` in the viewer's zone.
export function localise(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const instant = new Date(element.dateTime);
    const today = day.format(instant) === day.format(now());
    const shown = element.classList.contains("hm") ? clock.format(instant).slice(0, 5) : clock.format(instant);
    element.textContent = (today || shown.length === 5 ? "" : `${day.format(instant)} `) + shown;
    const zones = [...new Set([zone, element.dataset.zone || "UTC", "UTC"])];
    const moved = element.dataset.runs && `runs at ${clock.format(new Date(element.dataset.runs))}, moved by jitter or a retry`;
    element.title = [relative(instant), ...zones.map((name) => inZone(instant, name)), moved].filter(Boolean).join("\n");
  }
  tick(root);
}

// Count on what runs and down to what is due.
export function tick(root) {
  for (const element of root.querySelectorAll("[data-since]")) {
    const { line, since } = element.dataset;
    element.textContent = (line ? `${line} · ` : "") + duration(now() - Date.parse(since));
  }
  for (const element of root.querySelectorAll("[data-until]")) {
    const ms = Date.parse(element.dataset.until) - now();
    const lead = element.dataset.lead ?? element.dataset.line;
    element.textContent = ms > 0 ? `${lead} ${countdown(ms)}` : lead.replace(/ in$/, " now");
  }
}

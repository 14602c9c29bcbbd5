// Which zone times are shown in: the browser's, UTC, any of the IANA, or each task's own. One setting for all pages.
const KEY = "chronoweb-zone";
const formats = new Map();

export const OF_BROWSER = Intl.DateTimeFormat().resolvedOptions().timeZone;
export const OF_TASK = "task";
export let chosen = known(localStorage.getItem(KEY)); // empty: the browser's

function known(name) {
  try {
    if (name && name !== OF_TASK) Intl.DateTimeFormat("en-GB", { timeZone: name });
    return name ?? "";
  } catch {
    return ""; // a zone that this browser does not know
  }
}

// The zone of times that belong to no task, or to one in `own`.
export function zone(own) {
  return chosen === OF_TASK ? own || "UTC" : chosen || OF_BROWSER;
}

export const label = () => (chosen === OF_TASK ? "each task’s zone" : zone());

// Remember it, and have everything that is shown written anew.
export function choose(name) {
  localStorage.setItem(KEY, name);
  chosen = known(name);
  document.dispatchEvent(new CustomEvent("zone"));
}

addEventListener("storage", (event) => {
  if (event.key !== KEY) return;
  chosen = known(event.newValue);
  document.dispatchEvent(new CustomEvent("zone"));
});

const KINDS = {
  clock: { hour: "2-digit", minute: "2-digit", second: "2-digit" },
  day: { day: "numeric", month: "short" },
  date: { day: "numeric", month: "short", year: "numeric" },
  whole: { dateStyle: "medium", timeStyle: "medium" },
  short: { timeZoneName: "short" },
  offset: { timeZoneName: "longOffset" },
};

export function format(kind, instant, timeZone) {
  const key = `${kind} ${timeZone}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat("en-GB", { ...KINDS[kind], timeZone }));
  if (!KINDS[kind].timeZoneName) return formats.get(key).format(instant);
  return formats.get(key).formatToParts(instant).find((part) => part.type === "timeZoneName").value;
}

// What the palette lists without asking the server: it is read from the page, so a new page or button is in it at once.
import { now } from "./times.js";
import { OF_BROWSER, OF_TASK, choose, chosen, format } from "./zones.js";

const SVG = "http://www.w3.org/2000/svg";
const icons = new URL("icons.svg", import.meta.url).pathname;
const MOST_ZONES = 40;
const all = (selector) => [...document.querySelectorAll(selector)];

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `${icons}#${name}`);
  svg.append(use);
  return svg;
}

const iconOf = (element) => element.querySelector("use")?.getAttribute("href").split("#")[1];

// The rail's entries, the tenants of the header, and links that stand nowhere else.
export function pages() {
  const rail = all(".rail a.entry").map((link) => ({ group: "Pages", icon: iconOf(link), label: link.firstElementChild.nextSibling.textContent.trim(), href: link.href }));
  const links = all("[data-palette-links] a").map((link) => ({ group: "Links", icon: link.dataset.icon, label: link.textContent, words: link.dataset.words, href: link.href }));
  const tenants = all(".tenants li a").map((link) => ({ group: "Tenants", icon: "tenant", label: link.textContent, words: "switch tenant", href: link.href }));
  return [...rail, ...links, ...tenants];
}

// Buttons of this page that are shown: pressing one here asks first, as it does there.
export function acts() {
  const buttons = all("main .acts button, main a.btn.p, main [data-run-now]").filter((one) => one.offsetParent !== null && !one.disabled);
  const byLabel = new Map(buttons.map((button) => [button.textContent.trim(), button]));
  return [...byLabel].map(([label, button]) => ({ group: "On this page", icon: "act", label, run: () => button.click() }));
}

const theme = (name, words) => ({
  group: "Settings",
  icon: "theme",
  label: `Theme: ${name}`,
  words: `${words} appearance mode`,
  note: (document.documentElement.dataset.theme ?? "system") === name ? "now" : "",
  run: () => document.dispatchEvent(new CustomEvent("theme", { detail: name })),
});

export function settings(openZones) {
  return [
    { group: "Settings", icon: "scheduled", label: "Time zone…", words: "times clock utc", note: chosen || OF_BROWSER, run: openZones, stays: true },
    theme("light", "bright day"),
    theme("dark", "night"),
    theme("system", "automatic"),
    { group: "Settings", icon: "keys", label: "Keys of this page", words: "help keyboard shortcuts", run: () => document.querySelector("[data-help]").click() },
    { group: "Settings", icon: "leave", label: "Log out", words: "leave sign", run: () => document.querySelector("[data-logout]").submit() },
  ];
}

function zoneItem(name, label, note) {
  return { group: "Times in", icon: "scheduled", label, note: name === chosen ? `${note} · now` : note, words: name, run: () => choose(name) };
}

// Zones whose names contain all words; the usual ones first.
export function zonesLike(words) {
  const at = now();
  const time = (name) => `${format("clock", at, name).slice(0, 5)} ${format("offset", at, name).replace("GMT", "UTC")}`;
  const special = [
    zoneItem("", `${OF_BROWSER}, this browser’s`, time(OF_BROWSER)),
    zoneItem("UTC", "UTC", time("UTC")),
    zoneItem(OF_TASK, "Each task’s own zone", "its name beside each time"),
  ];
  const names = Intl.supportedValuesOf("timeZone").filter((name) => name !== OF_BROWSER && name !== "UTC");
  const of = (text) => words.every((word) => text.toLowerCase().replaceAll("_", " ").includes(word.replaceAll("_", " ")));
  const found = names.filter(of).slice(0, MOST_ZONES).map((name) => zoneItem(name, name.replaceAll("_", " "), time(name)));
  return [...special.filter((item) => of(`${item.label} ${item.words}`)), ...found];
}

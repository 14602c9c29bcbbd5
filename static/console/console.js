// What every page does: clock, theme, copying, finding in rows. Keys, the palette and the narrow rail stand beside it.
import "./away.js";
import "./keys.js";
import "./menus.js";
import "./more.js";
import "./palette.js";
import { clockTime, localise, now, tick } from "./times.js";
import { chosen, label } from "./zones.js";

const find = (selector) => document.querySelector(selector);

localise(document);
const shown = find("[data-clock]");
function everySecond() {
  if (shown) {
    shown.querySelector("[data-clock-zone]").textContent = label();
    shown.querySelector("[data-clock-time]").textContent = chosen === "task" ? "" : clockTime(now());
  }
  tick(document);
}
everySecond();
setInterval(() => document.hidden || everySecond(), 1000);
document.addEventListener("zone", () => {
  localise(document);
  everySecond();
});

// Away from what is shown first, then the other one, then as the system has it.
const toggle = find("[data-theme-toggle]");
const told = () => document.documentElement.dataset.theme ?? "system";
const tellTheme = () => toggle && (toggle.querySelector("span").textContent = `Theme: ${told()}`);
toggle?.addEventListener("click", () => {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order = isDark ? ["system", "light", "dark"] : ["system", "dark", "light"];
  document.dispatchEvent(new CustomEvent("theme", { detail: order[(order.indexOf(told()) + 1) % 3] }));
});
document.addEventListener("theme", tellTheme);
addEventListener("storage", tellTheme);
tellTheme();

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(find(button.dataset.copy).textContent.trim());
  const icon = button.querySelector("use");
  const word = button.textContent;
  const show = (name, text) => (icon ? icon.setAttribute("href", icon.getAttribute("href").replace(/#.*/, `#${name}`)) : (button.textContent = text));
  button.classList.add("copied");
  show("done", "copied");
  setTimeout(() => {
    button.classList.remove("copied");
    show("copy", word);
  }, 1200);
});

const search = find("[data-search]");

// Hide the rows that do not contain the words; live rows pass through here too.
export function search_rows(root = document) {
  const words = (search?.value ?? "").trim().toLowerCase();
  for (const row of root.querySelectorAll("tr[data-id]")) {
    row.hidden = words !== "" && !row.textContent.toLowerCase().includes(words) && !row.dataset.id.startsWith(words);
  }
}
search?.addEventListener("input", () => search_rows());

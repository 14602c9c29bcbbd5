// What is said of the chosen node, beside the graph. The address bar remembers which it is.
import { NodeLog } from "./node_log.js";
import { localise } from "./times.js";

const AGAIN_MS = 400;

export class Panel {
  // url: the address below which nodes are. shown(box): a node was opened, and has a box.
  constructor(element, url, shown) {
    this.element = element;
    this.url = url;
    this.shown = shown;
    this.node = null;
    this.asked = null;
    this.log = new NodeLog(element.querySelector("[data-log]"));
    element.addEventListener("click", (event) => event.target.closest("[data-panel-close]") && this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.node && !document.querySelector("dialog[open]")) this.close();
    });
    document.addEventListener("click", (event) => {
      const row = event.target.closest("[data-node]:not(svg)");
      if (row) this.open(row.dataset.node);
    });
    if (location.hash.startsWith("#node=")) this.open(decodeURIComponent(location.hash.slice(6)));
  }

  open(node) {
    this.node = node;
    history.replaceState(null, "", `#node=${encodeURIComponent(node)}`);
    this.choose();
    this.wait();
    if (this.box) this.shown(this.box);
    this.read({ first: true });
  }

  // What was said of another node, its buttons and its log go at once.
  wait() {
    const name = document.createElement("h3");
    name.textContent = this.node;
    const bars = document.createElement("div");
    bars.className = "skeleton";
    bars.append(...Array.from({ length: 6 }, () => document.createElement("i")));
    this.log.stop();
    this.put("head", [name, bars]);
    this.put("rest", []);
    this.element.setAttribute("aria-busy", "true");
    this.element.hidden = false;
  }

  // Who is at a button that is written anew is at it still.
  put(name, content) {
    const place = this.element.querySelector(`[data-part="${name}"]`);
    const at = place.contains(document.activeElement) ? document.activeElement : null;
    const same = (other) => other.matches(at.localName) && (at.dataset.act ? other.dataset.act === at.dataset.act : other.textContent === at.textContent);
    place.replaceChildren(...content);
    if (at) [...place.querySelectorAll("a, button, [tabindex]")].find(same)?.focus({ preventScroll: true });
  }

  close() {
    const box = this.box;
    this.node = null;
    this.log.stop();
    this.element.hidden = true;
    history.replaceState(null, "", location.pathname + location.search);
    this.choose();
    box?.focus({ preventScroll: true });
  }

  get box() {
    return [...document.querySelectorAll("svg.node")].find((box) => box.dataset.node === this.node);
  }

  choose() {
    document.querySelector("svg.node.chosen")?.classList.remove("chosen");
    const box = this.node && this.box;
    box?.classList.add("chosen");
  }

  // Boxes have changed: if ours is one of them, or hides in one, read it again.
  changed(boxes) {
    if (!this.node) return;
    const ours = this.box?.dataset.box;
    if (ours === undefined || boxes.some((told) => String(told.at) === ours)) {
      this.asked ??= setTimeout(() => this.read(), AGAIN_MS);
    }
  }

  async read({ first = false } = {}) {
    clearTimeout(this.asked);
    this.asked = null;
    const node = this.node;
    const answer = await fetch(`${this.url}${encodeURIComponent(node)}/`).catch(() => null);
    if (node !== this.node) return;
    this.element.removeAttribute("aria-busy");
    if (answer?.ok) this.tell(await answer.text());
    else if (first) this.put("head", [`Nothing can be said of ${node} now.`]);
  }

  // html: the parts of _node_panel.html, escaped by the server's templates; CSP runs no inline script.
  tell(html) {
    const told = document.createElement("template");
    told.innerHTML = html;
    localise(told.content);
    for (const name of ["head", "rest"]) this.put(name, told.content.querySelector(`[data-part="${name}"]`).childNodes);
    this.log.offer([...told.content.querySelectorAll('[data-part="logs"] option')]);
  }
}

// A drawing that is moved, scaled and walked through; what it says is the page's business.
import { minimap } from "./minimap.js";

const SMALLEST = 0.08;
const LARGEST = 2;
const READABLE = 0.85; // below this, names are no longer read: the drawing begins at its left instead
const STEP = 1.25;
const STILL_MS = 150;

export class Graph {
  // card: the section with the drawing. opened(box): a box was chosen.
  constructor(card, opened) {
    this.canvas = card.querySelector("[data-drawing]");
    this.world = this.canvas.querySelector("[data-world]");
    this.size = { width: Number(this.world.dataset.width), height: Number(this.world.dataset.height) };
    this.boxes = [...this.world.querySelectorAll("svg.node")];
    this.opened = opened;
    this.asked = false;
    this.listen(card);
    this.map = minimap(card.querySelector("[data-minimap]"), this);
    this.fit();
    new ResizeObserver(() => this.resized()).observe(this.canvas);
  }

  get room() {
    return { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
  }

  // As large as it fits, but readable.
  fit({ all = false } = {}) {
    const { width, height } = this.room;
    const whole = Math.min(1, width / this.size.width, height / this.size.height);
    this.scale = all ? Math.max(SMALLEST, whole) : Math.max(READABLE, whole);
    const centred = (room, size) => (size * this.scale < room ? (room - size * this.scale) / 2 : 0);
    this.x = centred(width, this.size.width);
    this.y = centred(height, this.size.height);
    if (!all && this.size.height * this.scale > height) this.y = (height - this.size.height * this.scale) / 2;
    this.fitted = true;
    this.soon();
  }

  resized() {
    if (this.fitted) this.fit();
    else this.soon();
  }

  move(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.kept();
  }

  // Scale about a point of the canvas.
  zoom(by, at = { x: this.room.width / 2, y: this.room.height / 2 }) {
    const scale = Math.min(LARGEST, Math.max(SMALLEST, this.scale * by));
    this.x = at.x - ((at.x - this.x) * scale) / this.scale;
    this.y = at.y - ((at.y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.kept();
  }

  // Some of the drawing always stays in sight.
  kept() {
    const edge = 80;
    const { width, height } = this.room;
    this.x = Math.min(width - edge, Math.max(edge - this.size.width * this.scale, this.x));
    this.y = Math.min(height - edge, Math.max(edge - this.size.height * this.scale, this.y));
    this.fitted = false;
    this.soon();
  }

  soon() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      // While it moves, what is painted already is moved; once it is still, it is painted sharp.
      this.world.classList.add("moving");
      clearTimeout(this.still);
      this.still = setTimeout(() => this.world.classList.remove("moving"), STILL_MS);
      this.world.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
      this.map.look();
    });
  }

  // Bring a box into sight.
  show(box) {
    const { width, height } = this.room;
    const x = this.x + Number(box.getAttribute("x")) * this.scale;
    const y = this.y + Number(box.getAttribute("y")) * this.scale;
    const off = (at, size, room) => (at < 8 ? 24 - at : at + size > room - 8 ? room - 24 - size - at : 0);
    const dx = off(x, 112 * this.scale, width);
    const dy = off(y, 40 * this.scale, height);
    if (dx || dy) this.move(dx, dy);
  }

  // The nearest box in a direction gets the focus.
  step(box, [dx, dy]) {
    const at = (one) => [Number(one.getAttribute("x")), Number(one.getAttribute("y"))];
    const [x, y] = at(box);
    let best = null;
    for (const other of this.boxes) {
      const [ox, oy] = at(other);
      const along = (ox - x) * dx + (oy - y) * dy;
      const aside = Math.abs((ox - x) * dy) + Math.abs((oy - y) * dx);
      if (along > 1 && (!best || along + 2 * aside < best.far)) best = { far: along + 2 * aside, other };
    }
    if (!best) return;
    box.setAttribute("tabindex", -1);
    best.other.setAttribute("tabindex", 0);
    best.other.focus({ preventScroll: true });
    this.show(best.other);
  }

  listen(card) {
    const act = { in: () => this.zoom(STEP), out: () => this.zoom(1 / STEP), fit: () => this.fit({ all: true }) };
    for (const button of card.querySelectorAll("[data-zoom]")) button.addEventListener("click", act[button.dataset.zoom]);
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
        event.preventDefault();
        const { left, top } = this.canvas.getBoundingClientRect();
        this.zoom(Math.exp(-event.deltaY / 300), { x: event.clientX - left, y: event.clientY - top });
      },
      { passive: false },
    );
    this.canvas.addEventListener("keydown", (event) => this.pressed(event, act));
    this.drag();
  }

  pressed(event, act) {
    const box = event.target.closest("svg.node");
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (way && box) this.step(box, way);
    else if ((event.key === "Enter" || event.key === " ") && box) this.opened(box);
    else if (event.key === "+" || event.key === "=") act.in();
    else if (event.key === "-") act.out();
    else if (event.key === "0") act.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // A press that moves drags; one that does not opens.
  drag() {
    let from = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button === 0) from = { x: event.clientX, y: event.clientY, moved: false, box: event.target.closest("svg.node") };
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!from || !event.buttons) return;
      const dx = event.clientX - from.x;
      const dy = event.clientY - from.y;
      if (!from.moved && Math.hypot(dx, dy) < 4) return;
      if (!from.moved) this.canvas.setPointerCapture(event.pointerId);
      Object.assign(from, { x: event.clientX, y: event.clientY, moved: true });
      this.move(dx, event.pointerType === "touch" ? 0 : dy);
    });
    this.canvas.addEventListener("pointerup", () => {
      if (from && !from.moved && from.box) this.opened(from.box);
      from = null;
    });
    this.canvas.addEventListener("pointercancel", () => (from = null));
  }
}

// A list of any length of which only the rows in sight exist. Rows have one height; nothing moves when others come.
const HEIGHT = 18;
const BEYOND = 20; // rows above and below the sight

export class Window {
  // box: scrolls; its only child gets the height of all rows. draw(row, index): fill an empty row.
  constructor(box, draw) {
    this.box = box;
    this.space = box.firstElementChild;
    this.draw = draw;
    this.count = 0;
    this.rows = new Map();
    this.asked = false;
    box.addEventListener("scroll", () => this.soon(), { passive: true });
    new ResizeObserver(() => this.soon()).observe(box);
  }

  get scrolls() {
    return this.space.offsetHeight > this.box.clientHeight;
  }

  get atEnd() {
    return this.box.scrollTop + this.box.clientHeight >= this.space.offsetHeight - HEIGHT;
  }

  // `count` rows from now on; those that are shown stay as they are.
  grow(count, { toEnd = false } = {}) {
    this.count = count;
    this.space.style.height = `${count * HEIGHT}px`;
    if (toEnd) this.box.scrollTop = count * HEIGHT;
    this.soon();
  }

  // Other rows: everything is drawn anew.
  replace(count, options) {
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.grow(count, options);
  }

  soon() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.place();
    });
  }

  place() {
    const top = Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - BEYOND);
    const end = Math.min(this.count, Math.ceil((this.box.scrollTop + this.box.clientHeight) / HEIGHT) + BEYOND);
    for (const [index, row] of this.rows) {
      if (index < top || index >= end) {
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let index = top; index < end; index += 1) {
      if (this.rows.has(index)) continue;
      const row = document.createElement("div");
      row.className = "log-row";
      row.style.top = `${index * HEIGHT}px`;
      this.draw(row, index);
      this.rows.set(index, row);
      this.space.append(row);
    }
  }
}

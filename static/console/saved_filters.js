// Filters with names, kept in this browser: of one list of one tenant. A filter is the address's query, no more.
const PASSING = ["before", "after", "canary"]; // where somebody was, not what they looked for
const MOST = 50;

// The query that is worth keeping, such as "?state=running"; empty: everything.
export function filterOf(search) {
  const query = new URLSearchParams(search);
  for (const name of PASSING) query.delete(name);
  for (const [name, value] of [...query]) if (!value) query.delete(name, value);
  return query.size ? `?${query}` : "";
}

class SavedFilters {
  constructor(menu) {
    this.list = menu.querySelector("[data-saved-list]");
    this.form = menu.querySelector("[data-saved-form]");
    this.key = `chronoweb-filters/${menu.dataset.tenant}/${menu.dataset.saved}`;
    this.now = filterOf(location.search);
    this.form.hidden = !this.now;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = this.form.elements.name.value.trim();
      if (!name) return;
      this.write([...this.read().filter((one) => one.name !== name), { name, query: this.now }].slice(-MOST));
      this.form.reset();
    });
    addEventListener("storage", (event) => event.key === this.key && this.show()); // another tab's
    this.show();
  }

  // What somebody else may have written there is taken for nothing.
  read() {
    try {
      const found = JSON.parse(localStorage.getItem(this.key) ?? "[]");
      const isFilter = (one) => typeof one?.name === "string" && typeof one.query === "string" && one.query.startsWith("?");
      return Array.isArray(found) ? found.filter(isFilter) : [];
    } catch {
      return [];
    }
  }

  write(filters) {
    localStorage.setItem(this.key, JSON.stringify(filters));
    this.show();
  }

  show() {
    const filters = this.read().sort((one, other) => one.name.localeCompare(other.name));
    this.list.replaceChildren(...(filters.length ? filters.map((one) => this.line(one)) : [this.nothing()]));
  }

  nothing() {
    const line = document.createElement("li");
    line.className = "quiet";
    line.textContent = this.now ? "None yet." : "None yet: narrow the list, then name it here.";
    return line;
  }

  line({ name, query }) {
    const line = document.createElement("li");
    const link = document.createElement("a");
    link.href = query;
    link.textContent = name;
    link.title = query;
    if (query === this.now) link.setAttribute("aria-current", "true");
    const forget = document.createElement("button");
    forget.type = "button";
    forget.textContent = "×";
    forget.setAttribute("aria-label", `forget ${name}`);
    forget.addEventListener("click", () => this.write(this.read().filter((one) => one.name !== name)));
    line.append(link, forget);
    return line;
  }
}

for (const menu of document.querySelectorAll("[data-saved]")) new SavedFilters(menu);

// The admin's theme writes JavaScript into attributes, which Alpine would run with eval. The Content-Security-Policy
// forbids that, so static/unfold holds the build of Alpine that reads simple expressions itself; what is more than
// simple in the theme's pages is put into functions here, before Alpine looks at them.

const SIDEBAR = "sidebarDesktopOpen";

function adminPage(firstTab) {
  return {
    activeTab: firstTab,
    sidebarMobileOpen: false,
    sidebarDesktopOpen: localStorage.getItem(SIDEBAR) !== "0",
    window: { location: { pathname: location.pathname, search: location.search } },
    init() {
      this.activeTab = window.getCurrentTab() || firstTab;
      this.$watch(SIDEBAR, (value) => localStorage.setItem(SIDEBAR, value ? "1" : "0"));
    },
    toggleSidebar() {
      this.sidebarDesktopOpen = !this.sidebarDesktopOpen;
    },
    leaveSearch(input) {
      if (input.value === "") {
        input.blur();
      }
      input.value = "";
    },
  };
}

// An attribute of the theme's that is more than an expression, by what it begins with → what says the same in one.
const REWRITTEN = [
  ["x-on:click", "sidebarDesktopOpen = !sidebarDesktopOpen;", () => "toggleSidebar()"],
  ["x-on:keydown.escape.prevent", "openSearchResults = false; if", () => "leaveSearch($refs.searchInput)"],
  ["x-on:keydown.enter.prevent", "if (!$event.metaKey", (text) => "!$event.metaKey && !$event.ctrlKey && " + text.slice(text.indexOf(")") + 1).trim()],
  ["x-on:focus", "openSearchResults = true; currentIndex = 0", () => "openSearchResults = true"],
];

function rewrite() {
  const body = document.body;
  const found = /activeTab: '([^']*)'/.exec(body.getAttribute("x-data") || "");
  if (found || body.hasAttribute("x-data")) {
    window.Alpine.data("adminPage", () => adminPage(found ? found[1] : ""));
    body.setAttribute("x-data", "adminPage");
    body.removeAttribute("x-init");
  }
  for (const element of document.querySelectorAll("*")) {
    for (const [name, beginning, instead] of REWRITTEN) {
      const text = (element.getAttribute(name) || "").trim();
      if (text.startsWith(beginning)) {
        element.setAttribute(name, instead(text));
      } else if (text.endsWith(";")) {
        element.setAttribute(name, text.slice(0, -1));
      }
    }
  }
}

// The theme's switch; what it chooses is told to theme.js, which paints.
function theme(usual) {
  const made = window.theme(usual);
  const init = made.init;
  return {
    ...made,
    init() {
      init.call(this);
      this.$watch("adminTheme", window.adminThemeChosen);
    },
    themeBindings: { "x-on:keydown.window": made.themeBindings["x-on:keydown.window"] },
  };
}

document.addEventListener("alpine:init", () => {
  window.Alpine.data("theme", theme);
  for (const name of ["searchForm", "searchDropdown", "searchCommand"]) {
    window.Alpine.data(name, window[name]);
  }
  rewrite();
});

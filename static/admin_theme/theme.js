// One choice of light or dark for console and admin, before the first paint: the console's (console/theme.js). The
// theme's own script paints by a class and remembers its choice elsewhere, so both are told.
(() => {
  const KEY = "chronoweb-theme";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    const theme = localStorage.getItem(KEY);
    return theme === "dark" || theme === "light" ? theme : "auto";
  };
  const dress = () => {
    const theme = chosen();
    const is = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
    root.dataset.theme = is;
    root.classList.toggle("dark", is === "dark");
    root.classList.toggle("light", is === "light");
  };
  localStorage.setItem("adminTheme", JSON.stringify(chosen()));
  dress();
  dark.addEventListener("change", dress);
  addEventListener("storage", (event) => event.key === KEY && dress());
  window.adminThemeChosen = (theme) => {
    localStorage.setItem(KEY, theme === "auto" ? "system" : theme);
    dress();
  };
})();

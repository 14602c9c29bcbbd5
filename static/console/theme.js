// Before the first paint: light or dark, as this browser chose; the system's where it chose neither.
(() => {
  const KEY = "chronoweb-theme";
  const root = document.documentElement;
  const put = (theme) => {
    if (theme === "dark" || theme === "light") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  put(localStorage.getItem(KEY));
  addEventListener("storage", (event) => event.key === KEY && put(event.newValue));
  document.addEventListener("theme", (event) => {
    localStorage.setItem(KEY, event.detail);
    put(event.detail);
  });
})();

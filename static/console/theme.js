// Before the first paint: the theme that this browser chose, if it chose one.
const chosen = localStorage.getItem("chronoweb-theme");
if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;

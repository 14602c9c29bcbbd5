// On narrow screens the rail is a bar at the bottom: what does not fit stands behind "More".
const rail = document.querySelector(".rail");
const more = rail?.querySelector("[data-more]");

function put(isOpen) {
  rail.classList.toggle("open", isOpen);
  more.setAttribute("aria-expanded", String(isOpen));
  more.lastElementChild.textContent = isOpen ? "Less" : "More";
}

more?.addEventListener("click", () => put(!rail.classList.contains("open")));
document.addEventListener("click", (event) => more && !event.target.closest(".rail") && put(false));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !rail?.classList.contains("open")) return;
  put(false);
  more.focus();
});

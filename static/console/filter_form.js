// The form of what is asked for seldom: times are typed in the viewer's zone, and stand in the address as UTC.
import { zone } from "./times.js";

const form = document.querySelector("[data-filter-form]");
const two = (number) => String(number).padStart(2, "0");

function local(instant) {
  const day = `${instant.getFullYear()}-${two(instant.getMonth() + 1)}-${two(instant.getDate())}`;
  return `${day}T${two(instant.getHours())}:${two(instant.getMinutes())}:${two(instant.getSeconds())}`;
}

if (form) {
  const times = form.querySelectorAll("input[type=datetime-local]");
  for (const name of form.querySelectorAll("[data-zone-name]")) name.textContent = zone;
  for (const field of times) if (field.value) field.value = local(new Date(`${field.value}Z`));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      const isTime = form.elements[name].type === "datetime-local";
      if (value) query.append(name, isTime ? new Date(value).toISOString() : value);
    }
    location.assign(`?${query}`);
  });
}

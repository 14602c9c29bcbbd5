// The form of what is asked for seldom: times are typed in the viewer's zone, and stand in the address as UTC.
import { zone } from "./zones.js";

const form = document.querySelector("[data-filter-form]");
// What a clock in `timeZone` shows at this instant, as such a field holds it.
function local(instant, timeZone) {
  return new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" }).format(instant).replace(" ", "T");
}

// The instant at which it shows that. Twice: the first guess may lie on the other side of a change of the clocks.
function instantOf(text, timeZone) {
  const wanted = Date.parse(`${text}Z`);
  let instant = wanted;
  for (let turn = 0; turn < 2; turn += 1) instant += wanted - Date.parse(`${local(instant, timeZone)}Z`);
  return new Date(instant);
}

if (form) {
  const times = form.querySelectorAll("input[type=datetime-local]");
  let of = "UTC"; // the zone that what stands in the fields is of
  const tell = () => {
    for (const field of times) if (field.value) field.value = local(instantOf(field.value, of), zone());
    of = zone();
    for (const name of form.querySelectorAll("[data-zone-name]")) name.textContent = of;
  };
  tell();
  document.addEventListener("zone", tell);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      const isTime = form.elements[name].type === "datetime-local";
      if (value) query.append(name, isTime ? instantOf(value, of).toISOString() : value);
    }
    location.assign(`?${query}`);
  });
}

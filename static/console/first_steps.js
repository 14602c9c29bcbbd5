// The first steps are put away for good: the server remembers it for this browser.
import { post } from "./act.js";

const form = document.querySelector("[data-put-away]");
form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { ok } = await post(form.dataset.putAway, form);
  if (ok) form.closest("[data-first]").remove();
});

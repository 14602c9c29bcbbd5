// One execution: its buttons follow its standing.
import { fit } from "./act.js";

const buttons = document.querySelectorAll("[data-acts] [data-when]");
document.addEventListener("pieces", () => fit(buttons, document.querySelector("[data-standing]").dataset.standing));

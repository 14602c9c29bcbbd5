// One execution: its buttons follow its standing, its log is followed.
import { fit } from "./act.js";
import { Log } from "./log.js";

const buttons = document.querySelectorAll("[data-acts] [data-when]");
document.addEventListener("pieces", () => fit(buttons, document.querySelector("[data-standing]").dataset.standing));

const log = document.querySelector("[data-log]");
new Log(log).show(log.dataset.log);

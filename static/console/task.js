// A task's page: what may be done to it, and the form that runs it.
import "./act.js";
import { runForm } from "./run_form.js";

runForm();
const history = document.querySelector(".scroll");
if (history) history.scrollLeft = history.scrollWidth; // the last run is on the right

// The log in a node's panel: of its newest execution, or of the item or generation that the reader chose.
import { Log } from "./log.js";

const MOST_PX = 234;

export class NodeLog {
  // section: hidden until a node has an execution that may print.
  constructor(section) {
    this.section = section;
    this.of = section.querySelector("[data-log-of]");
    this.full = section.querySelector("[data-log-full]");
    this.log = new Log(section, { most: MOST_PX });
    this.url = "";
    this.newest = "";
    this.isChosen = false;
    this.of.addEventListener("change", () => {
      this.isChosen = true;
      this.follow();
    });
  }

  // options: the executions of the node, the last generation first, the one to begin with selected; none: no log yet.
  // What is read goes on being shown until another generation begins, or the reader chooses.
  offer(options) {
    if (!options.length) return this.stop();
    const had = this.of.value;
    const newest = options[0].value;
    const first = (options.find((one) => one.defaultSelected) ?? options[0]).value;
    const told = (list) => [...list].map((one) => one.value + one.text).join("\n");
    if (told(options) !== told(this.of.options)) this.of.replaceChildren(...options);
    const isThere = [...this.of.options].some((one) => one.value === had);
    this.of.value = isThere && (this.isChosen || newest === this.newest) ? had : first;
    this.newest = newest;
    this.of.hidden = options.length < 2;
    this.section.hidden = false;
    this.follow();
  }

  follow() {
    if (this.of.value === this.url) return;
    this.url = this.of.value;
    this.full.href = this.of.selectedOptions[0].dataset.full;
    this.log.show(this.url);
  }

  stop() {
    this.log.stop();
    this.url = "";
    this.isChosen = false;
    this.section.hidden = true;
    this.of.replaceChildren();
  }
}

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
    this.isChosen = false;
    this.of.addEventListener("change", () => {
      this.isChosen = true;
      this.follow();
    });
  }

  // options: the executions of the node, the one to begin with selected; none: it has no log yet.
  offer(options) {
    if (!options.length) return this.stop();
    const had = this.of.value;
    const told = (list) => [...list].map((one) => one.value + one.text).join("\n");
    if (told(options) !== told(this.of.options)) this.of.replaceChildren(...options);
    if (this.isChosen && [...this.of.options].some((one) => one.value === had)) this.of.value = had;
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

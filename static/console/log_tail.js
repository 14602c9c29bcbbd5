// The tail of one execution's log: it goes on behind the last line it heard, and rests while nobody looks.
const AGAIN_MS = 3000;
const HIDDEN_MS = 15000;

export class Tail {
  // heard(lines, gap): JSON texts in order; gap: what stands before them, { attempt } that is a new one, or lines that are { missing }.
  // told(words): how the tail fares.
  constructor(url, { heard, told }) {
    this.url = url;
    this.heard = heard;
    this.told = told;
    this.last = ""; // the id of the last line: TOKEN-SEQUENCE
    this.over = false;
    this.look = () => this.looked();
    document.addEventListener("visibilitychange", this.look);
    if (document.hidden) this.looked();
    this.open();
  }

  stop() {
    this.over = true;
    this.close();
    clearTimeout(this.sleep);
    document.removeEventListener("visibilitychange", this.look);
  }

  close() {
    clearTimeout(this.again);
    this.source?.close();
    this.source = null;
  }

  // A tab that nobody looks at asks for nothing.
  looked() {
    clearTimeout(this.sleep);
    if (!document.hidden) {
      if (this.rests) this.open();
      return;
    }
    this.sleep = setTimeout(() => {
      this.rests = !this.ended;
      if (!this.rests) return;
      this.close();
      this.told("paused");
    }, HIDDEN_MS);
  }

  open() {
    if (this.over) return;
    this.rests = false;
    this.ended = false;
    const source = new EventSource(`${this.url}?grouped=true${this.last && `&cursor=${this.last}`}`); // connects again by itself, and says behind which line
    this.source = source;
    source.addEventListener("lines", (event) => this.lines(event));
    source.addEventListener("open", () => this.told("live"));
    source.addEventListener("error", () => this.told(source.readyState === EventSource.CLOSED ? "not to be had" : "reconnecting"));
    source.addEventListener("end", (event) => this.end(JSON.parse(event.data).status));
  }

  lines(event) {
    const fresh = event.data.split("\n");
    const first = JSON.parse(fresh[0]);
    const [token] = event.lastEventId.split("-");
    const [before, sequence] = this.last.split("-");
    const missing = first.seq - (before === token ? Number(sequence) : 0) - 1;
    this.last = event.lastEventId;
    this.told("live");
    this.heard(fresh, { attempt: first.attempt, isNew: Boolean(before) && before !== token, missing });
  }

  end(status) {
    this.close();
    const goesOn = status === "retrying" || status === "waiting";
    this.ended = !goesOn;
    this.told(goesOn ? "ended; another attempt will follow" : this.last ? "ended" : "nothing was printed");
    if (goesOn) this.again = setTimeout(() => this.open(), AGAIN_MS);
  }
}

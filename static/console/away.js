// When the server has not been heard of for a while the page says so: what is shown may be old.
import { clockTime, now } from "./times.js";

const LONG_MS = 2500;
const mark = document.querySelector("[data-live]");
const banner = document.querySelector("[data-away]");
let waiting = null;
let since = 0;

function look() {
  const why = mark?.dataset.why;
  if (why) {
    banner.querySelector("span").textContent = why;
    banner.hidden = false;
    return;
  }
  const isAway = !navigator.onLine || mark?.dataset.live === "reconnecting";
  if (!isAway) {
    clearTimeout(waiting);
    waiting = null;
    if (banner) banner.hidden = true;
  } else if (waiting === null) {
    since = now();
    waiting = setTimeout(() => {
      const cause = navigator.onLine ? "The server has not answered" : "This device has been offline";
      banner.querySelector("span").textContent = `${cause} since ${clockTime(since)}. What you see may be old; the page goes on by itself when it is back.`;
      banner.hidden = false;
    }, LONG_MS);
  }
}

if (banner) {
  addEventListener("offline", look);
  addEventListener("online", look);
  if (mark) new MutationObserver(look).observe(mark, { attributeFilter: ["data-live"] });
}

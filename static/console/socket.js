// One socket a page: it connects again by itself, asks now and then while it cannot, and rests while nobody looks.
import { clockTime, now } from "./times.js";

const HIDDEN_MS = 15000;
const POLL_MS = 4000;
const LONGEST_MS = 15000;
const POLLS_AFTER = 2; // failures in a row
const SILENT_MS = 4000; // hub.py tells of it after so long
const NO_PLACE = 4429;
const WHY = {
  full: "You have more pages open live than one person may have. This one asks every few seconds instead; close some.",
  out: "You are not logged in any more, so what you see is old. Load the page to log in again.",
  gone: "This page is not yours to see any more, or what it showed is gone. What you see is old.",
};

const PACKED = "chronoweb.zlib"; // long messages come packed where the browser can unpack them

async function parsed(data) {
  if (typeof data === "string") return JSON.parse(data);
  return new Response(new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

// page: its data-live-url is followed, its data-poll-url answers with what the socket sends first.
// heard(message): for every message; each says of which version it is, so hearing one twice does no harm.
export function follow(page, heard) {
  const mark = document.querySelector("[data-live]");
  let socket = null;
  let failures = 0;
  let again = null;
  let polls = null;
  let sleep = null;
  let order = Promise.resolve(); // unpacking takes a moment, and none may overtake another
  let over = false;

  // why: what a banner says of it.
  function say(state, why = "") {
    mark.dataset.why = why;
    mark.dataset.live = state;
    mark.querySelector("span").textContent = state;
  }

  // The server answers, and cannot read the ledger: what is shown is not live.
  function told(message) {
    if (message.type === "silent") say("stale", `The database has not answered since ${clockTime(now() - SILENT_MS)}. What you see may be old; the page goes on by itself when it is back.`);
    else if (message.type === "heard") say("live");
    else {
      if (message.type === "snapshot") say("live");
      heard(message);
    }
  }

  async function poll() {
    clearTimeout(polls);
    if (document.hidden || socket?.readyState === WebSocket.OPEN) return;
    const answer = await fetch(page.dataset.pollUrl + location.search).catch(() => null);
    if (socket?.readyState === WebSocket.OPEN) return;
    if (answer?.redirected) return end(WHY.out); // to the login
    if (answer?.status === 404) return end(WHY.gone);
    if (answer?.ok) heard(await answer.json());
    say(answer?.ok ? "polling" : "reconnecting", answer?.ok ? mark.dataset.why : "");
    polls = setTimeout(poll, POLL_MS);
  }

  // Nothing will come any more: nothing is asked any more.
  function end(why) {
    over = true;
    clearTimeout(again);
    socket?.close();
    say("ended", why);
  }

  function connect() {
    if (over) return;
    clearTimeout(again);
    socket = new WebSocket(new URL(page.dataset.liveUrl + location.search, location.href.replace(/^http/, "ws")), "DecompressionStream" in window ? [PACKED] : []);
    socket.onmessage = (event) => {
      failures = 0;
      clearTimeout(polls);
      if (mark.dataset.live !== "stale") say("live");
      const message = parsed(event.data);
      order = order.then(async () => told(await message)).catch(reportError);
    };
    socket.onclose = (event) => {
      if (event.target !== socket || over) return;
      failures += 1;
      if (document.hidden) return say("paused");
      const isFull = event.code === NO_PLACE;
      if (isFull) say("polling", WHY.full);
      else if (mark.dataset.live !== "polling") say("reconnecting");
      again = setTimeout(connect, Math.min(LONGEST_MS, 400 * 2 ** failures) * (0.5 + Math.random() / 2));
      if (isFull || failures === POLLS_AFTER) poll();
    };
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(sleep);
    if (document.hidden) sleep = setTimeout(() => socket.close(), HIDDEN_MS);
    else if (socket.readyState > WebSocket.OPEN) connect();
  });
  connect();
}

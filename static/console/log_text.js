// One line of a log as elements: colours that programs ask for, words that were searched for, and no more than fits.
const CODES = /\x1b\[([0-9;]*)m/g;
const OTHERS = /\x1b(?:\[[0-9;?]*[A-Za-ln-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9])|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g; // the last turn the writing around
const COLOURS = new Set(["1", "3", "4"]);
for (let n = 30; n < 37; n += 1) COLOURS.add(String(n)).add(String(n + 60));
export const MOST_SHOWN = 2000;

// What a terminal would show: of what a progress bar wrote over itself, the last.
export const plain = (text) => {
  const clean = text.replace(CODES, "").replace(OTHERS, "");
  return clean;
};

function overwritten(text) {
  const at = text.lastIndexOf("\r", text.length - 2);
  return at < 0 ? text : text.slice(at + 1);
}

function marked(parent, text, words) {
  if (!words) return parent.append(text);
  const folded = text.toLowerCase();
  let from = 0;
  for (let at = folded.indexOf(words); at >= 0; at = folded.indexOf(words, from)) {
    parent.append(text.slice(from, at));
    const mark = document.createElement("mark");
    mark.textContent = text.slice(at, at + words.length);
    parent.append(mark);
    from = at + words.length;
  }
  parent.append(text.slice(from));
}

// Append `text` to `parent`, its SGR codes as classes a1 … a96.
export function show(parent, text, words) {
  const shown = overwritten(text).slice(0, MOST_SHOWN);
  let classes = [];
  let from = 0;
  const piece = (part) => {
    const clean = part.replace(OTHERS, "");
    if (!clean) return;
    const span = document.createElement("span");
    span.className = classes.map((code) => `a${code}`).join(" ");
    marked(span, clean, words);
    parent.append(span);
  };
  for (const code of shown.matchAll(CODES)) {
    piece(shown.slice(from, code.index));
    from = code.index + code[0].length;
    for (const one of (code[1] || "0").split(";")) {
      if (one === "" || one === "0") classes = [];
      else if (COLOURS.has(one)) classes = [...classes.filter((c) => (Number(c) < 30) !== (Number(one) < 30)), one];
      else if (one === "39") classes = classes.filter((c) => Number(c) < 30);
    }
  }
  piece(shown.slice(from));
}

// A line of a text that is edited, chosen and scrolled to. number: from 1.
export function point(text, number) {
  const before = text.value.split("\n").slice(0, number - 1).join("\n").length + (number > 1 ? 1 : 0);
  const end = text.value.indexOf("\n", before);
  text.focus();
  text.setSelectionRange(before, end < 0 ? text.value.length : end);
  text.scrollTop = Math.max(0, (number - 4) * parseFloat(getComputedStyle(text).lineHeight));
}

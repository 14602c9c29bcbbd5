// Words about a form beside its buttons; empty: none. theirs: where another's version is seen.
export function tell(place, words, theirs) {
  place.textContent = words ?? "";
  place.hidden = !words;
  if (!theirs) return;
  const link = document.createElement("a");
  link.href = theirs;
  link.target = "_blank";
  link.className = "btn";
  link.textContent = "Look at theirs";
  place.append(" ", link);
}

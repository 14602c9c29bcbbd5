// Boxes that a script puts in a select's place take the select's label: else nobody hears what they ask for.
function label() {
  for (const select of document.querySelectorAll("select.select2-hidden-accessible")) {
    const words = document.querySelector(`label[for="${select.id}"]`)?.textContent.replace("*", "").trim();
    const box = select.nextElementSibling;
    if (!words || !box) continue;
    for (const part of box.querySelectorAll("[role=combobox], [role=textbox], .select2-search__field")) {
      part.setAttribute("aria-label", words);
    }
  }
}
// Whenever they come: pieces of the page are added while it is there.
new MutationObserver(label).observe(document, { childList: true, subtree: true });
addEventListener("load", label);

// Boxes that a script puts in a select's place take the select's label: else nobody hears what they ask for.
addEventListener("load", () => {
  for (const select of document.querySelectorAll("select.select2-hidden-accessible")) {
    const label = document.querySelector(`label[for="${select.id}"]`)?.textContent.replace("*", "").trim();
    const box = select.nextElementSibling;
    if (!label || !box) continue;
    for (const part of box.querySelectorAll("[role=combobox], [role=textbox], .select2-search__field")) {
      part.setAttribute("aria-label", label);
    }
  }
});

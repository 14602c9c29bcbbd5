// A small picture of a large drawing, with the part that is in sight; pressing it goes there.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 168;
const HEIGHT = 110;
const FEW = 16; // boxes are found without a map

function rect(parent, attributes) {
  const made = document.createElementNS(SVG, "rect");
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  parent.append(made);
  return made;
}

export function minimap(svg, graph) {
  const { width, height } = graph.size;
  const scale = Math.min(WIDTH / width, HEIGHT / height);
  svg.setAttribute("width", Math.round(width * scale));
  svg.setAttribute("height", Math.max(16, Math.round(height * scale)));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  const marks = new Map();
  const at = (box) => ({ x: box.getAttribute("x"), y: box.getAttribute("y"), width: 112, height: 40 });
  for (const box of graph.boxes) marks.set(box, rect(svg, { ...at(box), "data-state": box.dataset.state }));
  const sight = rect(svg, { class: "sight" });

  function go(event) {
    const { left, top } = svg.getBoundingClientRect();
    const room = graph.room;
    graph.x = room.width / 2 - ((event.clientX - left) / scale) * graph.scale;
    graph.y = room.height / 2 - ((event.clientY - top) / scale) * graph.scale;
    graph.kept();
  }
  svg.addEventListener("pointerdown", (event) => {
    svg.setPointerCapture(event.pointerId);
    go(event);
  });
  svg.addEventListener("pointermove", (event) => event.buttons && go(event));

  return {
    // Where the canvas looks; nothing is shown while all is in sight.
    look() {
      const room = graph.room;
      svg.toggleAttribute("hidden", graph.boxes.length < FEW || (width * graph.scale <= room.width + 1 && height * graph.scale <= room.height + 1));
      const seen = { x: -graph.x / graph.scale, y: -graph.y / graph.scale, width: room.width / graph.scale, height: room.height / graph.scale };
      for (const [name, value] of Object.entries(seen)) sight.setAttribute(name, value);
    },
    paint: (box) => (marks.get(box).dataset.state = box.dataset.state),
  };
}

"use strict";
// The picture of the dtype flow: modules as rows, nested as they are, with what flows between them as arcs to the right.
// Reads the JSON in #flow-data; draws into #flow. Nothing is fetched.
(function () {
  const data = JSON.parse(document.getElementById("flow-data").textContent);
  const svg = document.getElementById("flow-svg");
  const details = document.getElementById("flow-details");
  const SVG = "http://www.w3.org/2000/svg";
  const ROW = 26, GAP = 5, INDENT = 16, WIDTH = 460, BAR = 90, MOST_OPEN = 45;
  let picture, open, chosen = -1, view = null, content = { width: 800, height: 400 };

  function element(name, attributes, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    for (const child of children) made.append(child);
    return made;
  }

  function color(dtype) {
    if (dtype.startsWith("complex")) return "var(--complex)";
    if (dtype.startsWith("float8")) return "var(--float8)";
    if (["float32", "bfloat16", "float16", "float64", "bool"].includes(dtype)) return `var(--${dtype})`;
    return "var(--integer)";
  }

  function amount(bytes) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let unit = 0;
    while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1000; unit += 1; }
    return `${bytes >= 100 || unit === 0 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
  }

  function childrenOf(index) {
    return picture.children[index];
  }

  function show(phase) {
    picture = data.phases[phase];
    picture.children = picture.boxes.map(() => []);
    picture.boxes.forEach((box, index) => { if (box.parent >= 0) picture.children[box.parent].push(index); });
    open = new Set();
    chosen = -1;
    let rows = 1;
    const marked = new Set();
    picture.boxes.forEach((box, index) => {
      if (box.findings.length) for (let at = index; at >= 0; at = picture.boxes[at].parent) marked.add(at);
    });
    // Around findings first, then breadth first, as long as it fits on a screen or two.
    const queue = [0];
    while (queue.length) {
      queue.sort((a, b) => marked.has(b) - marked.has(a));
      const index = queue.shift(), below = childrenOf(index);
      if (below.length === 0 || (rows + below.length > MOST_OPEN && index !== 0)) continue;
      open.add(index);
      rows += below.length;
      queue.push(...below);
    }
    for (const button of document.querySelectorAll("[data-phase]"))
      button.setAttribute("aria-pressed", String(Number(button.dataset.phase) === phase));
    draw();
    fit();
    describe();
  }

  function visible(index) {
    let found = index;
    for (let at = picture.boxes[index].parent; at >= 0; at = picture.boxes[at].parent) if (!open.has(at)) found = at;
    return found;
  }

  // What a box shows: its own; of all below it too where it is closed.
  function gathered(index) {
    const bytes = new Map(), findings = new Set();
    let operations = 0;
    const pending = [index];
    while (pending.length) {
      const at = pending.pop(), box = picture.boxes[at];
      operations += box.operations;
      for (const [dtype, n] of box.nbytes) bytes.set(dtype, (bytes.get(dtype) || 0) + n);
      box.findings.forEach((n) => findings.add(n));
      if (!open.has(index)) pending.push(...childrenOf(at));
    }
    return { bytes: [...bytes].sort((a, b) => b[1] - a[1]), findings: [...findings].sort((a, b) => a - b), operations };
  }

  function worst(findings) {
    return ["error", "warning", "info"].find((s) => findings.some((n) => data.findings[n].severity === s)) || "";
  }

  function draw() {
    svg.replaceChildren();
    const arcs = element("g", {}), rows = element("g", {});
    const at = new Map();
    let y = 0, reach = 0;
    const fromOutside = picture.edges.some((edge) => edge.source < 0);
    if (fromOutside) {
      rows.append(element("text", { x: 8, y: 17, class: "faint" }, "(inputs)"));
      at.set(-1, { y: ROW / 2 });
      y = ROW + GAP;
    }
    const place = (index, depth) => {
      const top = y;
      y += ROW + GAP;
      at.set(index, { y: top + ROW / 2 });
      rows.append(row(index, depth, top));
      if (open.has(index)) childrenOf(index).forEach((child) => place(child, depth + 1));
    };
    place(0, 0);
    const merged = new Map();
    for (const edge of picture.edges) {
      const source = edge.source < 0 ? -1 : visible(edge.source), target = visible(edge.target);
      if (source === target) continue;
      const key = `${source},${target},${edge.dtype},${edge.becomes}`;
      const known = merged.get(key) || { ...edge, source, target, times: 0, nbytes: 0 };
      known.times += edge.times;
      known.nbytes += edge.nbytes;
      merged.set(key, known);
    }
    let lane = 0;
    for (const edge of merged.values()) {
      const from = at.get(edge.source).y + 3, to = at.get(edge.target).y - 3;
      const bulge = 24 + Math.min(420, Math.abs(to - from) * 0.45) + (lane++ % 5) * 5;
      reach = Math.max(reach, bulge * 0.75);
      const name = (n) => (n < 0 ? "(inputs)" : picture.boxes[n].path || "program");
      const becomes = edge.becomes ? `, becomes ${edge.becomes} there` : "";
      const title = `${name(edge.source)} → ${name(edge.target)}: ${edge.dtype}${becomes}; ` +
        `${edge.times} values, ${amount(edge.nbytes)}`;
      const curve = `M${WIDTH} ${from} C${WIDTH + bulge} ${from} ${WIDTH + bulge} ${to} ${WIDTH + 7} ${to}`;
      const width = Math.max(1, Math.min(4, Math.log10(edge.nbytes + 1) - 3));
      const group = element("g", { "data-source": edge.source, "data-target": edge.target });
      group.append(
        element("path", { d: curve, class: edge.becomes ? "edge changes" : "edge", stroke: color(edge.dtype),
          "stroke-width": width }),
        element("path", { d: `M${WIDTH + 8} ${to - 4} L${WIDTH} ${to} L${WIDTH + 8} ${to + 4} Z`,
          fill: color(edge.becomes || edge.dtype) }),
        element("title", {}, title));
      arcs.append(group);
    }
    svg.append(arcs, rows);
    content = { width: WIDTH + reach + 24, height: y };
  }

  function row(index, depth, top) {
    const box = picture.boxes[index], sum = gathered(index), below = childrenOf(index).length > 0;
    const x = depth * INDENT, severity = worst(sum.findings);
    const group = element("g", { class: `row ${severity}${index === chosen ? " chosen" : ""}`, tabindex: 0,
      role: "treeitem", "aria-label": box.path || "program", "data-box": index,
      transform: `translate(${x} ${top})` });
    if (below) group.setAttribute("aria-expanded", String(open.has(index)));
    group.append(element("rect", { class: "frame", width: WIDTH - x, height: ROW, rx: 4 }));
    const sign = below ? (open.has(index) ? "▾ " : "▸ ") : "";
    const times = box.stands_for > 1 ? ` ×${box.stands_for}` : "";
    const room = Math.max(6, Math.floor((WIDTH - x - BAR - 90) / 7.6) - times.length - sign.length);
    const name = box.name.length > room ? `${box.name.slice(0, room - 1)}…` : box.name;
    group.append(element("text", { x: 8, y: 17 }, `${sign}${name}${times}`));
    const total = sum.bytes.reduce((all, [, n]) => all + n, 0);
    let left = WIDTH - x - BAR - 8;
    for (const [dtype, n] of sum.bytes) {
      const width = total ? (BAR * n) / total : 0;
      group.append(element("rect", { x: left, y: 7, width, height: 12, fill: color(dtype) },
        element("title", {}, `${dtype}: ${amount(n)}`)));
      left += width;
    }
    sum.findings.slice(0, 3).forEach((number, place) => {
      const finding = data.findings[number], middle = WIDTH - x - BAR - 22 - place * 20;
      group.append(element("a", { href: `#finding-${number + 1}`, class: `mark ${finding.severity}` },
        element("circle", { cx: middle, cy: ROW / 2, r: 8 }),
        element("text", { x: middle, y: ROW / 2 + 3.5 }, String(number + 1)),
        element("title", {}, `${finding.code}: ${finding.message}`)));
    });
    return group;
  }

  function describe() {
    details.replaceChildren();
    const add = (name, text, into) => {
      const made = document.createElement(name);
      made.textContent = text;
      (into || details).append(made);
      return made;
    };
    if (chosen < 0) {
      add("span", "Click a module to open or close it and to see where it changes dtypes. Drag to move; " +
        "Ctrl and the wheel, + and −, to zoom.").className = "faint";
    } else {
      const box = picture.boxes[chosen], sum = gathered(chosen);
      const dtypes = sum.bytes.map(([dtype, n]) => `${dtype} ${amount(n)}`).join(", ");
      const stands = box.stands_for > 1 ? `, ${box.stands_for} modules alike` : "";
      add("strong", box.path || "program");
      add("span", ` ${sum.operations} operations${stands}; results: ${dtypes || "none"}`);
      if (box.changes.length) {
        const body = add("tbody", "", add("table", ""));
        for (const change of box.changes) {
          const line = add("tr", "", body);
          add("td", `${change.before} → ${change.after}`, line);
          add("td", change.where, line);
          add("code", change.source.slice(0, 80), add("td", "", line));
          add("td", `${change.times} times, ${amount(change.nbytes)}`, line).className = "number";
        }
      }
    }
    for (const arc of svg.querySelectorAll("[data-source]")) {
      const touches = chosen < 0 || [arc.dataset.source, arc.dataset.target].includes(String(chosen));
      arc.firstChild.classList.toggle("dimmed", !touches);
    }
  }

  function look() {
    svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
  }

  // As wide as the frame, and as high as that makes it up to most of the window; what is higher shrinks to fit.
  function fit() {
    const frame = Math.max(svg.getBoundingClientRect().width, 1), most = window.innerHeight * 0.7;
    const width = Math.max(content.width, 760) + 20, height = content.height + 20;
    const shown = Math.min(Math.max((height * frame) / width, 200), Math.max(most, 320));
    svg.style.height = `${shown}px`;
    const fitting = Math.max(width, Math.min((height * frame) / shown, width * 2.2));
    view = { x: -10, y: -10, width: fitting, height: (fitting * shown) / frame };
    look();
  }

  function zoom(factor, x, y) {
    const width = Math.min(Math.max(view.width * factor, 80), 20000), scale = width / view.width;
    view = { x: x - (x - view.x) * scale, y: y - (y - view.y) * scale, width, height: view.height * scale };
    look();
  }

  function zoomMiddle(factor) {
    zoom(factor, view.x + view.width / 2, view.y + view.height / 2);
  }

  function toggle(index) {
    chosen = index;
    if (childrenOf(index).length) open.has(index) ? open.delete(index) : open.add(index);
    draw();
    describe();
    const again = svg.querySelector(`[data-box="${index}"]`);
    if (again) again.focus({ preventScroll: true });
  }

  let drag = null, dragged = false; // dragged: the click that follows belongs to the drag
  svg.addEventListener("pointerdown", (event) => {
    dragged = false;
    drag = { x: event.clientX, y: event.clientY, view: { ...view }, moved: false };
  });
  window.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const scale = view.width / Math.max(svg.getBoundingClientRect().width, 1);
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (Math.hypot(dx, dy) > 4) drag.moved = true;
    if (!drag.moved) return;
    svg.classList.add("dragging");
    view.x = drag.view.x - dx * scale;
    view.y = drag.view.y - dy * scale;
    look();
  });
  window.addEventListener("pointerup", () => {
    svg.classList.remove("dragging");
    dragged = drag !== null && drag.moved;
    drag = null;
  });
  svg.addEventListener("click", (event) => {
    if (dragged || event.target.closest("a")) return;
    const row = event.target.closest("[data-box]");
    if (row) toggle(Number(row.dataset.box));
    else { chosen = -1; draw(); describe(); }
  });
  svg.addEventListener("keydown", (event) => {
    const row = event.target.closest("[data-box]");
    if (row && (event.key === "Enter" || event.key === " ")) { toggle(Number(row.dataset.box)); event.preventDefault(); }
    if (event.key === "+") zoomMiddle(0.8);
    if (event.key === "-") zoomMiddle(1.25);
    if (event.key === "0") fit();
  });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const frame = svg.getBoundingClientRect(), scale = view.width / Math.max(frame.width, 1);
    zoom(event.deltaY > 0 ? 1.15 : 0.87, view.x + (event.clientX - frame.left) * scale,
      view.y + (event.clientY - frame.top) * scale);
  }, { passive: false });
  const all = (opened) => {
    open = new Set(opened ? picture.boxes.map((_, index) => index) : []);
    draw(); fit(); describe();
  };
  document.getElementById("flow-in").addEventListener("click", () => zoomMiddle(0.8));
  document.getElementById("flow-out").addEventListener("click", () => zoomMiddle(1.25));
  document.getElementById("flow-fit").addEventListener("click", fit);
  document.getElementById("flow-open").addEventListener("click", () => all(true));
  document.getElementById("flow-close").addEventListener("click", () => all(false));
  for (const button of document.querySelectorAll("[data-phase]"))
    button.addEventListener("click", () => show(Number(button.dataset.phase)));
  for (const sample of document.querySelectorAll(".legend i")) sample.style.background = color(sample.dataset.dtype);
  for (const link of document.querySelectorAll("[data-shows]"))
    link.addEventListener("click", () => {
      const number = Number(link.dataset.shows);
      const phase = data.phases.findIndex((p) => p.boxes.some((box) => box.findings.includes(number)));
      if (phase < 0) return;
      show(phase);
      // The deepest box with it: an operation's own module rather than the one around.
      picture.boxes.forEach((box, index) => { if (box.findings.includes(number)) chosen = index; });
      for (let at = picture.boxes[chosen].parent; at >= 0; at = picture.boxes[at].parent) open.add(at);
      draw(); fit(); describe();
    });
  show(0);
})();

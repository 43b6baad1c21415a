// One pane with a drawing. Only what is in view is in the document: near, vertices with their
// texts; far away, one path for each kind.

const FAR = 0.33;
// Below this scale shapes are a few pixels wide, and "fit" goes no further.
const LEAST = 0.06;

class Drawing {
  constructor(host, actions) {
    this.host = host;
    this.actions = actions;
    this.graph = null;
    this.elements = new Map();
    this.scale = 1;
    this.left = 0;
    this.top = 0;
    this.edges = svg("path", { class: "edges" });
    this.stubs = svg("path", { class: "edges stubs" });
    this.near = svg("path", { class: "edges near" });
    this.overview = svg("g");
    this.layer = svg("g");
    this.world = svg("g", {}, this.edges, this.stubs, this.near, this.overview, this.layer);
    this.svg = svg("svg", { role: "group", "aria-label": "Drawing of the graph" }, this.world);
    host.append(this.svg);
    this.listen();
    new ResizeObserver(() => this.schedule()).observe(host);
  }

  listen() {
    let drag = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      drag = { x: event.clientX, y: event.clientY, left: this.left, top: this.top, moved: false };
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (drag === null) return;
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      if (!drag.moved) this.svg.setPointerCapture(event.pointerId);
      drag.moved = true;
      this.svg.classList.add("dragging");
      this.left = drag.left - dx / this.scale;
      this.top = drag.top - dy / this.scale;
      this.schedule();
    });
    const release = () => { drag = null; this.svg.classList.remove("dragging"); };
    this.svg.addEventListener("pointerup", release);
    this.svg.addEventListener("pointercancel", release);
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 30 : 1;
      if (event.ctrlKey || event.metaKey) {
        const box = this.svg.getBoundingClientRect();
        this.zoom(Math.exp(-event.deltaY * unit * 0.004), event.clientX - box.left, event.clientY - box.top);
      } else {
        this.left += ((event.shiftKey ? event.deltaY : event.deltaX) * unit) / this.scale;
        this.top += ((event.shiftKey ? 0 : event.deltaY) * unit) / this.scale;
        this.schedule();
      }
    }, { passive: false });
    this.svg.addEventListener("click", (event) => {
      if (this.scale >= FAR) return;
      const box = this.svg.getBoundingClientRect();
      const x = this.left + (event.clientX - box.left) / this.scale;
      const y = this.top + (event.clientY - box.top) / this.scale;
      const hit = this.graph?.vertices.findIndex((v) => x >= v.x && x <= v.x + v.w && y >= v.y && y <= v.y + HEIGHT);
      if (hit >= 0) { this.actions.pick(this.graph.vertices[hit].values[0]); this.center(hit, 1); }
    });
  }

  get room() { return [this.host.clientWidth || 1, this.host.clientHeight || 1]; }

  show(graph, marks, hits, picked) {
    const changed = graph !== this.graph;
    this.graph = graph;
    this.marks = marks;
    this.hits = hits;
    this.picked = picked;
    for (const element of this.elements.values()) element.remove();
    this.elements.clear();
    if (changed) this.begin();
    this.render();
  }

  // All of it if that can be read, else a change.
  begin() {
    const [width, height] = this.room, [w, h] = this.graph.data.size;
    const scale = Math.min((width - 32) / Math.max(w, 1), (height - 32) / Math.max(h, 1), 1);
    if (scale >= 0.62) { this.fit(); return; }
    this.center(this.opening(0.85), 0.85);
  }

  // The first of the early changes that has, in view with it, most of what any of them has.
  opening(scale) {
    const [width, height] = this.room, { vertices, data } = this.graph;
    const around = (index) => {
      const left = this.within(vertices[index].x + vertices[index].w / 2, width, data.size[0], scale);
      const top = this.within(vertices[index].y + HEIGHT / 2, height, data.size[1], scale);
      return vertices.filter((v) => v.x >= left && v.x + v.w <= left + width / scale && v.y >= top && v.y + HEIGHT <= top + height / scale).length;
    };
    const early = [...this.marks.keys()].sort((a, b) => a - b).slice(0, 100).map((index) => [index, around(index)]);
    const most = Math.max(...early.map(([, count]) => count));
    return early.find(([, count]) => count >= 0.7 * most)?.[0] ?? 0;
  }

  // The first vertex that is marked.
  first() {
    let first = this.graph.vertices.length;
    for (const index of this.marks.keys()) first = Math.min(first, index);
    return first < this.graph.vertices.length ? first : 0;
  }

  fit() {
    const [width, height] = this.room, [w, h] = this.graph.data.size;
    this.scale = Math.max(LEAST, Math.min((width - 40) / Math.max(w, 1), (height - 40) / Math.max(h, 1), 1));
    const at = this.graph.at.get(this.picked);
    const vertex = this.graph.vertices[at === undefined ? this.first() : at];
    this.left = vertex ? this.within(vertex.x + vertex.w / 2, width, w) : 0;
    this.top = vertex ? this.within(vertex.y + HEIGHT / 2, height, h) : 0;
    if (h * this.scale + 40 <= height) this.top = -20 / this.scale;
    this.schedule();
  }

  zoom(factor, x = this.room[0] / 2, y = this.room[1] / 2) {
    const scale = Math.min(4, Math.max(LEAST / 2, this.scale * factor));
    this.left += x / this.scale - x / scale;
    this.top += y / this.scale - y / scale;
    this.scale = scale;
    this.schedule();
  }

  center(index, least = 0.7) {
    const vertex = this.graph?.vertices[index];
    if (!vertex) return;
    this.scale = Math.max(this.scale, least);
    if (this.scale > 1.2) this.scale = 1;
    this.left = this.within(vertex.x + vertex.w / 2, this.room[0], this.graph.data.size[0]);
    this.top = this.within(vertex.y + HEIGHT / 2, this.room[1], this.graph.data.size[1]);
    this.schedule();
  }

  // Where the view begins so that a place is in its middle, without showing what is beyond the
  // drawing unless all of it fits.
  within(middle, room, size, scale = this.scale) {
    const view = room / scale, margin = 20 / scale;
    if (size + 2 * margin <= view) return (size - view) / 2;
    return Math.max(-margin, Math.min(middle - view / 2, size + margin - view));
  }

  reveal(value) {
    const index = this.graph?.at.get(value);
    if (index === undefined) return;
    const vertex = this.graph.vertices[index];
    const [width, height] = this.room;
    const x = (vertex.x - this.left) * this.scale, y = (vertex.y - this.top) * this.scale;
    const inside = x > 8 && y > 8 && x + vertex.w * this.scale < width - 8 && y + HEIGHT * this.scale < height - 8;
    if (!inside || this.scale < FAR) this.center(index);
  }

  focusPicked() { this.elements.get(this.graph?.at.get(this.picked))?.focus({ preventScroll: true }); }

  schedule() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.render(); });
  }

  render() {
    if (this.graph === null || this.host.clientWidth === 0) return;
    const [width, height] = this.room;
    const { vertices, edges } = this.graph;
    this.world.setAttribute("transform", `scale(${this.scale}) translate(${-this.left} ${-this.top})`);
    const right = this.left + width / this.scale, bottom = this.top + height / this.scale;
    const seen = (v) => v.x < right && v.x + v.w > this.left && v.y < bottom && v.y + HEIGHT > this.top;
    const isFar = this.scale < FAR;
    const visible = new Set();
    vertices.forEach((vertex, index) => { if (seen(vertex)) visible.add(index); });
    for (const [index, element] of this.elements) {
      if (isFar || !visible.has(index)) { element.remove(); this.elements.delete(index); }
    }
    this.overview.replaceChildren();
    if (isFar) this.renderFar(visible);
    else for (const index of visible) if (!this.elements.has(index)) this.enter(index);
    const lines = [], stubs = [];
    const crosses = (a, b) =>
      Math.min(a.y, b.y) < bottom && Math.max(a.y, b.y) + HEIGHT > this.top &&
      Math.min(a.x, b.x) - 400 < right && Math.max(a.x + a.w, b.x + b.w) + 400 > this.left;
    for (const [index, [source, target]] of edges.entries())
      if (!crosses(vertices[source], vertices[target])) continue;
      else if (this.isLong(index)) stubs.push(this.stub(index));
      else lines.push(this.path(index, isFar));
    this.edges.setAttribute("d", lines.join(""));
    this.stubs.setAttribute("d", isFar ? "" : stubs.join(""));
    this.edges.setAttribute("stroke-width", isFar ? 0.6 / this.scale : 1.2);
    const at = this.graph.at.get(this.picked);
    this.near.setAttribute("d", at === undefined ? "" : this.graph.incident[at].map((index) => this.path(index, isFar)).join(""));
  }

  // Long edges are drawn in full only where an end is chosen; else they'd cover everything.
  isLong(index) {
    const [source, target] = this.graph.edges[index];
    return this.graph.vertices[target].y - this.graph.vertices[source].y > D.longest;
  }

  stub(index) {
    const [source, target] = this.graph.edges[index];
    const a = this.graph.vertices[source], b = this.graph.vertices[target];
    return `M${a.x + a.w / 2} ${a.y + HEIGHT}v14M${b.x + b.w / 2} ${b.y}v-14`;
  }

  path(index, straight) {
    const [source, target, operand] = this.graph.edges[index];
    const a = this.graph.vertices[source], b = this.graph.vertices[target];
    let x = a.x + a.w / 2, y = a.y + HEIGHT;
    const points = [...(this.graph.data.bends[`${target}.${operand}`] || []), [b.x + b.w / 2, b.y]];
    let text = `M${x} ${y}`;
    for (const [toX, toY] of points) {
      const middle = (y + toY) / 2;
      text += straight ? `L${toX} ${toY}` : `C${x} ${middle} ${toX} ${middle} ${toX} ${toY}`;
      [x, y] = [toX, toY];
    }
    return text;
  }

  renderFar(visible) {
    const kinds = new Map(), marked = new Map();
    const add = (map, key, text) => map.set(key, (map.get(key) || "") + text);
    for (const index of visible) {
      const v = this.graph.vertices[index];
      add(kinds, v.kind, `M${v.x} ${v.y}h${v.w}v${HEIGHT}h${-v.w}z`);
      const mark = this.isHit(v) ? "hit" : this.marks.get(index);
      if (mark) add(marked, mark, `M${v.x - 5} ${v.y - 5}h${v.w + 10}v${HEIGHT + 10}h${-v.w - 10}z`);
    }
    for (const [kind, d] of kinds)
      this.overview.append(svg("g", { class: `k${kind} far-kind` }, svg("path", { class: "shape", d })));
    for (const [mark, d] of marked)
      this.overview.append(svg("path", { class: `far ${mark}`, d, "stroke-width": 2.5 / this.scale }));
  }

  isHit(vertex) { return vertex.values.some((value) => this.hits.has(value)); }

  enter(index) {
    const vertex = this.graph.vertices[index];
    const mark = this.marks.get(index) || "";
    const names = ["vertex", `k${vertex.kind}`, mark];
    if (vertex.result) names.push("result");
    if (this.isHit(vertex)) names.push("hit");
    if (vertex.values.includes(this.picked)) names.push("picked");
    const middle = vertex.w / 2;
    const types = short(vertex.values.slice(0, 3).map(valueType).join(", "));
    const what = vertex.node < 0 ? `${valueText(vertex.values[0])} : ${valueType(vertex.values[0])}` : definition(vertex.node);
    const about = [what, mark, lineFull(vertex.line), lineText(vertex.line)].filter(Boolean).join("\n");
    const far = this.graph.incident[index].filter((edge) => this.graph.edges[edge][1] === index && this.isLong(edge))
      .map((edge) => this.graph.vertices[this.graph.edges[edge][0]].title);
    const element = svg("g", {
      class: names.filter(Boolean).join(" "), tabindex: 0, role: "button", "aria-label": about,
      transform: `translate(${vertex.x} ${vertex.y})`, "data-value": vertex.values[0],
      onclick: () => this.actions.pick(vertex.values[0]),
      ondblclick: () => vertex.regions.length && this.actions.open(vertex.values[0], 0),
      onkeydown: (event) => {
        if (event.key === "Enter") {
          if (vertex.values.includes(this.picked) && vertex.regions.length) this.actions.open(vertex.values[0], 0);
          else this.actions.pick(vertex.values[0]);
        }
      },
    },
      svg("title", {}, about),
      svg("rect", { class: "halo", x: -5, y: -5, width: vertex.w + 10, height: HEIGHT + 10, rx: 7 }),
      svg("path", { class: "shape", d: outline(vertex.kind, vertex.w) }),
      far.length ? svg("text", { class: "far-from", x: 2, y: -9 }, short(`↑ ${[...new Set(far)].join(", ")}`)) : null,
      svg("text", { class: "t", x: middle, y: 17 }, vertex.title),
      svg("text", { class: "d", x: middle, y: 31 }, types),
      svg("text", { class: "p", x: middle, y: 44 }, short(lineBrief(vertex.line))));
    this.elements.set(index, element);
    this.layer.append(element);
  }
}

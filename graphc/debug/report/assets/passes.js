// The passes: when each ran, and the graph before and after it, as drawings or as lists.

class Passes {
  constructor(section) {
    this.section = section;
    this.pass = 0;
    this.mode = "drawing";
    this.way = [];
    this.picked = -1;
    this.hits = new Set();
    this.unfolded = false;
    this.build();
  }

  // --- building -------------------------------------------------------------------------------

  build() {
    const total = D.passes.reduce((sum, pass) => sum + pass.seconds, 0);
    let started = 0;
    this.items = D.passes.map((pass, index) => {
      const mark = el("i");
      mark.style.left = `${(100 * started) / (total || 1)}%`;
      mark.style.width = `${(100 * pass.seconds) / (total || 1)}%`;
      started += pass.seconds;
      const made = pass.decisions.filter((decision) => decision[3]).length;
      const nodes = pass.before === pass.after ? `${pass.after}` : `${pass.before} → ${pass.after}`;
      const isIdle = !made && this.before(index) === pass.graph;
      return el("li", {
        role: "option", id: `pass-${index}`, class: isIdle ? "idle" : "", onclick: () => this.choose(index),
        title: `${pass.name}: ${duration(pass.seconds)}, nodes ${nodes}, ${counted(made, "decision")}`,
      },
        el("div", { class: "row" }, el("span", { class: "name" }, pass.name), el("span", {}, duration(pass.seconds))),
        el("div", { class: "row" }, el("span", { class: "quiet" }, `nodes ${nodes}`), el("span", {}, made ? counted(made, "decision") : "")),
        el("div", { class: "track" }, mark));
    });
    this.list = el("ol", { role: "listbox", "aria-label": "Passes", tabindex: 0 }, ...this.items);
    const scale = el("div", { class: "scale" }, el("span", {}, "0"), el("span", {}, duration(total)));
    this.title = el("h2");
    this.facts = el("span", { class: "quiet" });
    this.modes = Object.fromEntries(["drawing", "list"].map((mode) => [mode, el("button", {
      type: "button", "aria-pressed": "false", onclick: () => this.setMode(mode),
    }, mode === "drawing" ? "Drawing" : "List")]));
    this.changes = el("span", { class: "quiet" });
    const bar = el("div", { class: "bar" }, this.title, this.facts, el("span", { class: "grow" }),
      el("div", { class: "group" }, this.changes,
        el("button", { type: "button", title: "Previous change (p)", "aria-label": "Previous change", onclick: () => this.step(-1) }, "‹"),
        el("button", { type: "button", title: "Next change (n)", "aria-label": "Next change", onclick: () => this.step(1) }, "›")),
      el("div", { class: "group" }, this.modes.drawing, this.modes.list));
    const legend = el("div", { class: "bar legend" },
      ...D.kinds.map(([, name], kind) => el("span", {}, glyph(kind), name)),
      el("span", { class: "grow" }),
      ...["removed", "added", "changed", "moved"].map((mark) => el("span", {}, el("i", { class: `mark-${mark}` }), mark)));
    this.panes = el("div", { class: "panes" });
    const actions = { pick: (value) => this.pick(value), open: (value, region) => this.open(value, region) };
    this.sides = ["Before", "After"].map((name) => {
      const label = el("span", { class: "grow" });
      const stage = el("div", { class: "stage" });
      const pane = el("div", { class: "pane" }, el("div", { class: "head" }, label,
        el("button", { type: "button", title: "Smaller (−)", "aria-label": "Smaller", onclick: () => side.drawing.zoom(1 / 1.4) }, "−"),
        el("button", { type: "button", title: "Larger (+)", "aria-label": "Larger", onclick: () => side.drawing.zoom(1.4) }, "+"),
        el("button", { type: "button", title: "All of it (0)", onclick: () => side.drawing.fit() }, "fit")), stage);
      this.panes.append(pane);
      const side = { name, label, drawing: new Drawing(stage, actions) };
      return side;
    });
    this.heads = el("div", { class: "head-row" }, el("div"), el("div"));
    this.diff = el("div", { class: "diff" });
    this.lists = el("div", { class: "work", hidden: true }, this.heads, this.diff);
    this.about = el("div", { "aria-live": "polite" });
    this.decisions = el("div");
    this.section.append(
      el("div", { class: "side" }, scale, this.list),
      el("div", { class: "work" }, bar, legend, this.panes, this.lists,
        el("div", { class: "foot" }, this.about, this.decisions)));
  }

  before(index) { return index === 0 ? D.source : D.passes[index - 1].graph; }

  // --- choosing -------------------------------------------------------------------------------

  choose(index) {
    this.pass = Math.max(0, Math.min(D.passes.length - 1, index));
    this.unfolded = false;
    this.items.forEach((item, place) => item.setAttribute("aria-selected", String(place === this.pass)));
    this.list.setAttribute("aria-activedescendant", `pass-${this.pass}`);
    this.items[this.pass]?.scrollIntoView({ block: "nearest" });
    this.update();
    this.toFirstChange();
  }

  // The list begins at the first change; drawings do so by themselves.
  toFirstChange() {
    this.diff.scrollTop = 0;
    const first = this.diff.querySelector(".removed, .added, .changed, .moved");
    if (first) this.diff.scrollTop = first.offsetTop - 80;
  }

  setMode(mode) { this.mode = mode; this.update(); this.toFirstChange(); }

  pick(value) {
    this.picked = value;
    this.update();
    for (const side of this.sides) side.drawing.reveal(value);
    if (this.mode === "list") this.diff.querySelector(".picked")?.scrollIntoView({ block: "center" });
  }

  open(value, region) { this.way.push([value, region]); this.update(); }
  close(depth) { this.way.length = depth; this.update(); }
  find(hits) { this.hits = hits; this.update(); }

  // The graphs shown: those of the pass, or the regions that were opened in them. Where one side
  // has no such region it shows the graph around, and nothing is compared.
  shown() {
    const found = [this.before(this.pass), D.passes[this.pass].graph].map((graph) => {
      let depth = 0;
      for (const [value, region] of this.way) {
        const at = graphOf(graph).at.get(value);
        const inner = at === undefined ? undefined : graphOf(graph).vertices[at].regions[region];
        if (inner === undefined) break;
        graph = inner;
        depth += 1;
      }
      return [graph, depth];
    });
    this.depths = found.map(([, depth]) => depth);
    return found.map(([graph]) => graph);
  }

  // --- showing --------------------------------------------------------------------------------

  update() {
    const pass = D.passes[this.pass];
    const [left, right] = this.shown();
    const isCompared = this.depths[0] === this.depths[1];
    const marks = isCompared ? marksOf(left, right) : { left: new Map(), right: new Map() };
    this.current = { left, right };
    this.title.textContent = pass.name;
    this.facts.textContent = `${duration(pass.seconds)}, nodes ${pass.before} → ${pass.after}`;
    const changed = new Set([...this.values(left, marks.left), ...this.values(right, marks.right)]);
    this.changed = [...changed];
    this.changes.textContent = left === right ? "graph unchanged"
      : isCompared ? counted(changed.size, "change") : "this region is on one side only";
    for (const [mode, button] of Object.entries(this.modes)) button.setAttribute("aria-pressed", String(mode === this.mode));
    this.panes.hidden = this.mode !== "drawing";
    this.lists.hidden = this.mode === "drawing";
    const names = this.sides.map((side, index) => this.crumbs(side.name, this.depths[index]));
    if (this.mode === "drawing") this.updateDrawings([left, right], [marks.left, marks.right], names);
    else this.updateList(left, right, names);
    this.updateAbout(left, right);
    this.updateDecisions(pass);
  }

  values(graph, marks) {
    return [...marks.keys()].map((index) => graphOf(graph).vertices[index].values[0]);
  }

  crumbs(name, inside) {
    const parts = [this.way.length ? el("a", { href: "#", onclick: (event) => { event.preventDefault(); this.close(0); } }, name) : name];
    this.way.slice(0, inside).forEach(([value, region], depth) => parts.push(" › ", el("a", {
      href: "#", onclick: (event) => { event.preventDefault(); this.close(depth + 1); },
    }, `region ${region} of ${valueText(value)}`)));
    return parts;
  }

  updateDrawings(graphs, marks, names) {
    this.sides.forEach((side, index) => {
      const graph = graphs[index];
      side.label.replaceChildren(...names[index], el("span", { class: "quiet" },
        `  ${counted(graphOf(graph).vertices.length - graphOf(graph).first, "node")}`));
      side.drawing.show(graphOf(graph), marks[index], this.hits, this.picked);
    });
  }

  updateList(left, right, names) {
    [...this.heads.children].forEach((head, index) => head.replaceChildren(...names[index]));
    const rows = el("div", { class: "rows" });
    const a = graphOf(left), b = graphOf(right);
    this.inputRows(rows, a, b);
    const counts = [a, b].map((view) => view.vertices.length - view.first);
    const apart = this.depths[0] !== this.depths[1];
    const runs = apart ? [["-", 0, 0, counts[0]], ["+", 0, 0, counts[1]]] : D.diffs[`${left}:${right}`] || [["=", 0, 0, counts[0]]];
    for (const run of runs) this.runRows(rows, a, b, run, apart ? "" : SIGN_NAMES[run[0]]);
    const at = this.diff.scrollTop;
    this.diff.replaceChildren(rows);
    this.diff.scrollTop = at;
  }

  inputRows(rows, a, b) {
    for (let place = 0; place < Math.max(a.first, b.first); place += 1)
      for (const view of [a, b])
        rows.append(place < view.first ? this.cell(view.vertices[place], "") : this.voidCell());
  }

  runRows(rows, a, b, [sign, from, to, count], name) {
    const fold = sign === "=" && count > 9 && !this.unfolded;
    for (let step = 0; step < count; step += 1) {
      if (fold && step === 3) {
        rows.append(el("div", { class: "cell fold", onclick: () => { this.unfolded = true; this.update(); } },
          `${counted(count - 6, "unchanged node")} — show`));
        step = count - 4;
        continue;
      }
      rows.append("=~-<".includes(sign) ? this.cell(a.vertices[a.first + from + step], name, sign) : this.voidCell());
      rows.append("=~+>".includes(sign) ? this.cell(b.vertices[b.first + to + step], name, sign) : this.voidCell());
    }
  }

  voidCell() { return el("div", { class: "cell void" }); }

  cell(vertex, mark, sign = "") {
    const value = vertex.values[0];
    const names = ["cell", mark];
    if (vertex.values.some((each) => this.hits.has(each))) names.push("hit");
    if (vertex.values.includes(this.picked)) names.push("picked");
    const text = vertex.node < 0 ? `${valueText(value)} : ${valueType(value)}` : definition(vertex.node);
    const source = lineText(vertex.line);
    return el("div", {
      class: names.filter(Boolean).join(" "), "data-value": value, title: mark || null, onclick: () => this.pick(value),
    },
      el("span", { class: "sign" }, sign === "=" || sign === "" ? "" : { "<": "↑", ">": "↓" }[sign] || sign),
      glyph(vertex.kind),
      el("span", { class: "what" }, el("code", {}, text),
        el("span", { class: "from", title: lineFull(vertex.line) }, lineBrief(vertex.line) + (source ? `   ${source}` : ""))));
  }

  updateAbout(left, right) {
    this.about.replaceChildren();
    if (this.picked < 0) {
      this.about.append(el("p", { class: "quiet" }, "Choose a node to see what it computes and where it comes from."));
      return;
    }
    const value = this.picked;
    const rows = [];
    const row = (name, ...what) => rows.push(el("dt", {}, name), el("dd", {}, ...what));
    let node = null;
    [["before", left], ["after", right]].forEach(([name, graph]) => {
      const at = graphOf(graph).at.get(value);
      if (at === undefined) { row(name, el("span", { class: "quiet" }, "not in this graph")); return; }
      const vertex = graphOf(graph).vertices[at];
      if (vertex.node >= 0) node = vertex.node;
      row(name, el("code", {}, vertex.node < 0 ? "an input" : definition(vertex.node)));
    });
    const line = node === null ? D.values[value][2] : D.nodes[node][LINE];
    if (line >= 0) row("line", el("code", {}, lineFull(line)), el("br"), el("code", {}, lineText(line)));
    if (node !== null) {
      row("made by", D.nodes[node][CAUSE]);
      const parents = D.nodes[node][PARENTS].filter((parent) => parent !== line && parent >= 0);
      if (parents.length) row("also from", ...parents.flatMap((parent) => [el("code", {}, `${lineBrief(parent)}  ${lineText(parent)}`), el("br")]));
      D.nodes[node][REGIONS].forEach((region, index) => row("region",
        el("button", { type: "button", onclick: () => this.open(value, index) }, `open ${D.graphs[region].name}, ${counted(D.graphs[region].nodes.length, "node")}`)));
    }
    D.kernels.forEach((kernel, number) => {
      if (kernel.values.includes(value))
        row("kernel", el("button", { type: "button", onclick: () => App.showKernel(number) }, kernel.name));
    });
    this.about.append(el("h2", {}, valueText(value), "  ", el("span", { class: "quiet mono" }, valueType(value))), el("dl", {}, ...rows));
  }

  updateDecisions(pass) {
    const decisions = pass.decisions;
    const shown = decisions.slice(0, 400);
    const items = shown.map(([rule, value, line, number, reason]) => el("li", {
      class: number ? "" : "not", onclick: () => this.pick(value),
      title: `${rule}: ${valueText(value)} ${lineFull(line)}${reason ? "\nnot done: " + reason : ""}`,
    },
      el("span", {}, number ? `#${number}  ${rule}` : rule),
      el("span", {}, el("code", {}, valueText(value)), `  ${lineBrief(line)}  `, el("span", { class: "quiet" }, reason ? `not done: ${reason}` : lineText(line)))));
    this.decisions.replaceChildren(
      el("h2", {}, decisions.length ? `Decisions of ${pass.name}` : "No decisions", " ",
        el("span", { class: "quiet" }, decisions.length > shown.length ? `${shown.length} of ${decisions.length} shown` : "")),
      el("ul", { class: "decisions" }, ...items));
  }

  // --- moving ---------------------------------------------------------------------------------

  step(by) { this.walk(this.changed, by); }

  walk(values, by) {
    if (values.length === 0) return;
    const at = values.indexOf(this.picked);
    this.pick(values[at < 0 ? (by > 0 ? 0 : values.length - 1) : (at + by + values.length) % values.length]);
  }

  nextHit(by) {
    const { left, right } = this.current;
    const order = new Set();
    for (const graph of [right, left])
      for (const vertex of graphOf(graph).vertices)
        for (const value of vertex.values) if (this.hits.has(value)) order.add(value);
    this.walk([...order], by);
  }

  key(event) {
    const drawings = this.sides.map((side) => side.drawing);
    const isDrawn = this.mode === "drawing";
    const moves = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };
    if (event.key in moves) this.choose(this.pass + moves[event.key]);
    else if (event.key === "n") this.step(1);
    else if (event.key === "p") this.step(-1);
    else if (event.key === "g") this.setMode(isDrawn ? "list" : "drawing");
    else if (event.key === "o" && this.picked >= 0) this.openPicked();
    else if ((event.key === "Backspace" || event.key === "Escape") && this.way.length) this.close(this.way.length - 1);
    else if (isDrawn && (event.key === "+" || event.key === "=")) drawings.forEach((drawing) => drawing.zoom(1.4));
    else if (isDrawn && event.key === "-") drawings.forEach((drawing) => drawing.zoom(1 / 1.4));
    else if (isDrawn && event.key === "0") drawings.forEach((drawing) => drawing.graph && drawing.fit());
    else return false;
    return true;
  }

  openPicked() {
    const graph = this.shown().reverse().find((each) => graphOf(each).at.has(this.picked));
    if (graph === undefined) return;
    const vertex = graphOf(graph).vertices[graphOf(graph).at.get(this.picked)];
    if (vertex.regions.length) this.open(this.picked, 0);
  }
}

// The arena: addresses upwards, steps of the plan to the right, a block for each temporary.

const [NAME, VALUE, OFFSET, BYTES, START, END, WHERE, WHAT, ROOT] = Array(9).keys();

// The least of 1, 2 or 5 times a power of ten that is no smaller.
function roundStep(size) {
  const power = 10 ** Math.floor(Math.log10(Math.max(size, 1)));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= size || factor === 10);
}

class Memory {
  constructor(section) {
    this.section = section;
    this.picked = -1;
    this.hits = new Set();
    this.hitLines = new Set();
    this.build();
  }

  build() {
    const m = D.memory;
    const sizes = Object.entries(m.sizes).map(([name, size]) => `${name} = ${size}`).join(", ");
    const facts = [`arena ${bytes(m.peak)}`, `lower bound ${bytes(m.lower)}`, `without sharing ${bytes(m.unplanned)}`, counted(m.buffers.length, "temporary", "temporaries")];
    if (sizes) facts.push(`at ${sizes}${m.measured ? " (as profiled)" : " (the sizes planned for)"}`);
    this.groups = new Map();
    for (const buffer of m.buffers) this.groups.set(buffer[ROOT], (this.groups.get(buffer[ROOT]) || 0) + 1);
    this.about = el("div", { "aria-live": "polite" });
    this.around = el("div");
    this.plot = el("div", { class: "plot" });
    const key = (name, what) => el("span", {}, el("i", { class: `key-${name}` }), what);
    this.section.append(el("div", { class: "work" },
      el("div", { class: "bar" }, el("h2", {}, "Memory of temporaries"), el("span", { class: "quiet" }, facts.join(" · ")), el("span", { class: "grow" }),
        el("div", { class: "legend" }, key("temporary", "temporary"), key("shared", "taken over in place"), key("scratch", "scratch of a kernel"),
          el("span", {}, el("i", { class: "key-use" }), "bytes in use"), el("span", {}, el("i", { class: "key-bound" }), "lower bound"))),
      this.plot, el("div", { class: "foot" }, this.about, this.around)));
    // drawing may make a scroll bar appear, so it waits for the next frame and for another size
    new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(this.plot);
    this.describe();
  }

  draw() {
    const m = D.memory;
    const room = [this.plot.offsetWidth, this.plot.offsetHeight];
    if (room[0] === 0 || String(room) === this.drawn) return;
    this.drawn = String(room);
    if (m.buffers.length === 0 || m.peak === 0) {
      this.plot.replaceChildren(el("p", { class: "empty" }, "This program needs no memory for temporaries: what its kernels compute goes straight to the results."));
      return;
    }
    const steps = m.steps.length;
    const left = 74, top = 16, bottom = 40;
    const width = Math.max(room[0] - 28, left + 20 + steps * 3);
    const height = Math.max(200, room[1] - (width > room[0] - 28 ? 26 : 8));
    const x = (step) => left + ((width - left - 12) * step) / steps;
    const y = (address) => height - bottom - ((height - bottom - top) * address) / (m.peak * 1.02);
    const art = svg("svg", { width, height, role: "group", "aria-label": "Memory plan: addresses upwards, steps to the right" });
    const apart = roundStep(m.peak / 4);
    for (let address = 0; address <= m.peak; address += apart) {
      art.append(svg("line", { class: "grid", x1: left, x2: width - 12, y1: y(address), y2: y(address) }),
        svg("text", { x: left - 8, y: y(address) + 4, "text-anchor": "end" }, bytes(address)));
    }
    const every = Math.max(1, Math.ceil((steps * 44) / (width - left)));
    for (let step = 0; step < steps; step += every)
      art.append(svg("text", { x: x(step), y: height - bottom + 16, "text-anchor": "start" }, String(step)));
    art.append(svg("text", { x: left, y: height - 6 }, "step of the plan"));
    this.blocks = m.buffers.map((buffer, index) => {
      const what = this.groups.get(buffer[ROOT]) > 1 ? "shared" : buffer[WHAT];
      const place = { x: x(buffer[START]), y: y(buffer[OFFSET] + buffer[BYTES]), width: x(buffer[END]) - x(buffer[START]), height: Math.max(1, y(buffer[OFFSET]) - y(buffer[OFFSET] + buffer[BYTES])) };
      const block = svg("rect", { ...place, class: `block ${what}`, tabindex: buffer[BYTES] ? 0 : -1, role: "button", "aria-label": this.text(buffer),
        onclick: () => this.pick(index), onfocus: () => this.pick(index), onmouseenter: () => this.describe(index), onmouseleave: () => this.describe() },
        svg("title", {}, this.text(buffer)));
      art.append(block);
      const label = short(buffer[NAME]);
      if (place.height > 13 && place.width > label.length * 6.8 + 8)
        art.append(svg("text", { class: "label", x: place.x + 5, y: place.y + Math.min(place.height / 2 + 4, 16) }, label));
      return block;
    });
    art.append(svg("path", { class: "bound", d: `M${left} ${y(m.lower)}H${width - 12}` }, svg("title", {}, `lower bound: ${bytes(m.lower)} are in use at once`)));
    art.append(svg("path", { class: "use", d: this.inUse(x, y) }));
    this.plot.replaceChildren(art);
    this.mark();
  }

  // The sum of what is in use in each step; a group that shares memory counts once.
  inUse(x, y) {
    const m = D.memory;
    const groups = new Map();
    for (const buffer of m.buffers) {
      const known = groups.get(buffer[ROOT]) || [0, Infinity, 0];
      groups.set(buffer[ROOT], [Math.max(known[0], buffer[BYTES]), Math.min(known[1], buffer[START]), Math.max(known[2], buffer[END])]);
    }
    const change = new Array(m.steps.length + 1).fill(0);
    for (const [size, start, end] of groups.values()) { change[start] += size; change[end] -= size; }
    let total = 0, d = `M${x(0)} ${y(0)}`;
    for (let step = 0; step < m.steps.length; step += 1) {
      total += change[step];
      d += `V${y(total)}H${x(step + 1)}`;
    }
    return d;
  }

  text(buffer) {
    const kernel = D.memory.steps[buffer[START]];
    return [
      `${buffer[NAME]}${buffer[VALUE] >= 0 ? `  ${valueText(buffer[VALUE])} : ${valueType(buffer[VALUE])}` : ""}`,
      `${bytes(buffer[BYTES])} at ${buffer[OFFSET]}, steps ${buffer[START]} to ${buffer[END] - 1}, written by ${kernel[0]}`,
      lineFull(buffer[WHERE]), lineText(buffer[WHERE]),
    ].filter(Boolean).join("\n");
  }

  describe(index = this.picked) {
    const buffer = D.memory.buffers[index];
    this.about.replaceChildren();
    this.around.replaceChildren();
    if (buffer === undefined) {
      this.about.append(el("p", { class: "quiet" }, "Point at a block, or move to it with the tab key, to see what it holds."));
      return;
    }
    const [title, ...rest] = this.text(buffer).split("\n");
    this.about.append(el("h2", {}, title), ...rest.map((line, place) => el("div", {}, place ? el("code", {}, line) : line)));
    if (buffer[VALUE] >= 0) this.about.append(el("button", { type: "button", onclick: () => App.showValue(buffer[VALUE]) }, "show in the graph"));
    const partners = D.memory.buffers.filter((other) => other !== buffer && other[ROOT] === buffer[ROOT]);
    if (partners.length) this.around.append(el("h2", {}, "Shares its memory with"), ...partners.slice(0, 12).map((other) => el("div", {}, this.text(other).split("\n").slice(0, 2).join(" · "))));
  }

  pick(index) { this.picked = index; this.describe(); this.mark(); }

  mark() {
    (this.blocks || []).forEach((block, index) => {
      block.classList.toggle("picked", index === this.picked);
      block.classList.toggle("hit", this.isHit(index));
    });
  }

  isHit(index) {
    const buffer = D.memory.buffers[index];
    return this.hits.has(buffer[VALUE]) || this.hitLines.has(buffer[WHERE]);
  }

  find(hits) {
    this.hits = hits;
    this.hitLines = new Set([...hits].map((value) => D.values[value][2]).filter((line) => line >= 0));
    this.mark();
  }

  nextHit(by) {
    const found = D.memory.buffers.map((_, index) => index).filter((index) => this.isHit(index));
    if (found.length === 0) return;
    const at = found.indexOf(this.picked);
    this.pick(found[at < 0 ? 0 : (at + by + found.length) % found.length]);
    this.blocks?.[this.picked]?.scrollIntoView({ block: "nearest", inline: "center" });
  }

  update() { this.draw(); }
  key() { return false; }
}

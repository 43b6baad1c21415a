// The kernels: loops beside the LLVM text or the assembly they became, and times if measured.

class Kernels {
  constructor(section) {
    this.section = section;
    this.kernel = 0;
    this.code = 2;
    this.build();
  }

  build() {
    const slowest = Math.max(...D.kernels.map((kernel) => kernel.seconds || 0));
    this.order = D.kernels.map((_, number) => number);
    if (D.profile) this.order.sort((a, b) => (D.kernels[b].seconds || 0) - (D.kernels[a].seconds || 0) || a - b);
    this.items = D.kernels.map((kernel, number) => {
      const times = kernel.launches.length > 1 ? `×${kernel.launches.length}` : "";
      const item = el("li", { role: "option", id: `kernel-${number}`, onclick: () => this.choose(number), title: kernel.name },
        el("div", { class: "row" }, el("span", { class: "name" }, `${number}  ${kernel.name}`),
          el("span", {}, kernel.seconds === null ? times : duration(kernel.seconds))),
        el("div", { class: "row quiet" }, el("span", { class: "name quiet" }, kernel.lines.map(lineBrief).slice(0, 3).join(", ")),
          el("span", {}, kernel.seconds === null ? "" : times)));
      if (kernel.seconds !== null) {
        const mark = el("i");
        mark.style.width = `${(100 * kernel.seconds) / (slowest || 1)}%`;
        item.append(el("div", { class: "track" }, mark));
      }
      return item;
    });
    const head = D.profile
      ? `time of a run: ${duration(D.profile.seconds)} in kernels and copies, median of ${counted(D.profile.runs, "run")}` +
        Object.entries(D.profile.sizes).map(([name, size]) => `, ${name} = ${size}`).join("")
      : "not profiled: call exe.profile(…) before exe.report(…) for times";
    this.list = el("ol", { role: "listbox", "aria-label": "Kernels", tabindex: 0 }, ...this.order.map((number) => this.items[number]));
    this.title = el("h2");
    this.facts = el("span", { class: "quiet" });
    this.tabs = [["LLVM IR", 1], ["Assembly", 2], ["Schedule", 3]].map(([name, code]) => el("button", {
      type: "button", "aria-pressed": "false", onclick: () => { this.code = code; this.update(); },
    }, name));
    this.lines = el("div", { class: "from-lines" });
    this.left = el("pre", { class: "code", tabindex: 0, "aria-label": "Kernel IR" });
    this.right = el("pre", { class: "code", tabindex: 0, "aria-label": "Code" });
    this.section.append(
      el("div", { class: "side" }, el("div", { class: "scale" }, el("span", {}, head)), this.list),
      el("div", { class: "work" },
        el("div", { class: "bar" }, this.title, this.facts, el("span", { class: "grow" })),
        this.lines,
        el("div", { class: "panes" },
          el("div", { class: "pane" }, el("div", { class: "head" }, el("span", { class: "grow" }, "Kernel IR")), this.left),
          el("div", { class: "pane" }, el("div", { class: "head" }, el("span", { class: "grow" }, "Code"), ...this.tabs), this.right))));
  }

  choose(number) {
    this.kernel = number;
    this.items.forEach((item, place) => item.setAttribute("aria-selected", String(place === number)));
    this.list.setAttribute("aria-activedescendant", `kernel-${number}`);
    this.items[number]?.scrollIntoView({ block: "nearest" });
    this.update();
  }

  find(hits) {
    const lines = new Set([...hits].map((value) => D.values[value][2]));
    this.items.forEach((item, number) => {
      const kernel = D.kernels[number];
      item.classList.toggle("hit", kernel.values.some((value) => hits.has(value)) || kernel.lines.some((line) => lines.has(line)));
    });
    this.hitKernels = this.order.filter((number) => this.items[number].classList.contains("hit"));
  }

  nextHit(by) {
    const found = this.hitKernels || [];
    if (found.length === 0) return;
    const at = found.indexOf(this.kernel);
    this.choose(found[at < 0 ? 0 : (at + by + found.length) % found.length]);
  }

  async update() {
    this.tabs.forEach((tab, index) => tab.setAttribute("aria-pressed", String(this.code === index + 1)));
    const kernel = D.kernels[this.kernel];
    if (kernel === undefined) { this.title.textContent = "No kernels: nothing is computed."; return; }
    this.title.textContent = kernel.name;
    const facts = [`${counted(kernel.launches.length, "launch", "launches")} in the plan`];
    if (kernel.seconds !== null) facts.push(`${duration(kernel.seconds)} in ${kernel.runs === 1 ? "1 call" : `${kernel.runs} calls`} a run`);
    this.facts.textContent = facts.join(", ");
    this.lines.hidden = kernel.lines.length === 0;
    this.lines.replaceChildren(...kernel.lines.map((line) =>
      el("div", { title: lineFull(line) }, el("code", {}, lineBrief(line)), el("code", {}, lineText(line)))));
    const asked = this.kernel;
    const texts = (await kernelTexts())[asked];
    if (asked !== this.kernel) return;
    this.left.textContent = texts[0];
    this.right.textContent = texts[this.code];
  }

  key(event) {
    const moves = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };
    if (event.key in moves && !(event.target instanceof HTMLPreElement)) {
      const at = this.order.indexOf(this.kernel) + moves[event.key];
      if (at >= 0 && at < this.order.length) this.choose(this.order[at]);
    } else if (event.key === "g") { this.code = this.code % 3 + 1; this.update(); }
    else return false;
    return true;
  }
}

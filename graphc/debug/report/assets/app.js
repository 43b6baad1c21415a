// The user's lines, and what holds the views together: tabs, search, keys, light and dark.

class Lines {
  constructor(section) {
    this.section = section;
    const values = D.lines.map(() => []), decisions = D.lines.map(() => []), kernels = D.lines.map(() => []);
    D.values.forEach(([, , line], value) => line >= 0 && values[line].push(value));
    for (const pass of D.passes)
      for (const [rule, , line, number] of pass.decisions) if (line >= 0 && number) decisions[line].push(rule);
    D.kernels.forEach((kernel, number) => kernel.lines.forEach((line) => kernels[line].push(number)));
    const order = D.lines.map((_, line) => line).sort((a, b) =>
      D.lines[a][0] < D.lines[b][0] ? -1 : D.lines[a][0] > D.lines[b][0] ? 1 : D.lines[a][1] - D.lines[b][1]);
    this.rows = new Map(order.map((line) => [line, el("tr", { onclick: () => App.search(lineFull(line)), title: lineFull(line) },
      el("td", {}, el("code", {}, lineBrief(line))),
      el("td", { class: "wrap" }, el("code", {}, lineText(line))),
      el("td", {}, String(values[line].length)),
      el("td", { class: "wrap" }, summary(decisions[line])),
      el("td", { class: "wrap" }, summary(kernels[line].map((number) => D.kernels[number].name), 4)))]));
    const widths = ["15%", "36%", "8%", "21%", "20%"].map((width) => { const column = el("col"); column.style.width = width; return column; });
    section.append(el("div", { class: "table" }, el("table", {}, el("colgroup", {}, ...widths),
      el("thead", {}, el("tr", {}, ...["line", "source", "values", "decisions", "kernels"].map((name) => el("th", {}, name)))),
      el("tbody", {}, ...this.rows.values()))));
  }

  find(hits) {
    const lines = new Set([...hits].map((value) => D.values[value][2]));
    for (const [line, row] of this.rows) row.classList.toggle("hit", lines.has(line));
  }

  nextHit() { this.section.querySelector("tr.hit")?.scrollIntoView({ block: "center" }); }
  update() {}
  key() { return false; }
}

function summary(names, most = Infinity) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) || 0) + 1);
  const parts = [...counts].map(([name, count]) => (count > 1 ? `${name} ×${count}` : name));
  return parts.slice(0, most).join(", ") + (parts.length > most ? ` and ${parts.length - most} more` : "");
}

const KEYS = [
  ["1 2 3 4", "passes, kernels, memory, lines"], ["/", "find; Enter goes to the next, Shift+Enter to the previous"],
  ["↓ ↑ or j k", "next or previous pass or kernel"], ["n p", "next or previous change"],
  ["g", "drawing or list; LLVM IR, assembly or schedule"], ["o", "open the region of the chosen node"],
  ["Esc", "leave the region, or the search"], ["+ − 0", "larger, smaller, all of it"],
  ["wheel, drag", "move the drawing; with Ctrl the wheel zooms"], ["Tab, Enter", "go from node to node, choose one"],
  ["d", "light or dark"], ["?", "this list"],
];

const App = {
  start() {
    document.getElementById("title").textContent = D.title;
    document.getElementById("title").title = D.title;
    const nodes = `${D.passes[0].before} → ${D.passes[D.passes.length - 1].after} nodes`;
    const spent = D.passes.reduce((sum, pass) => sum + pass.seconds, 0);
    const facts = (target) => [nodes, counted(D.kernels.length, "kernel"), `compiled in ${duration(spent)}`, `for ${target}`].join(" · ");
    document.getElementById("facts").textContent = facts(D.target.split(",")[0]);
    document.getElementById("facts").title = facts(D.target);
    const at = (name) => document.getElementById(name);
    this.views = { passes: new Passes(at("passes")), kernels: new Kernels(at("kernels")), memory: new Memory(at("memory")), lines: new Lines(at("lines")) };
    this.tabs = Object.fromEntries(Object.keys(this.views).map((name, index) => [name, el("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": name, title: `${index + 1}`, onclick: () => this.show(name),
    }, name[0].toUpperCase() + name.slice(1))]));
    at("tabs").append(...Object.values(this.tabs));
    Object.keys(this.views).forEach((name) => at(name).setAttribute("aria-labelledby", `tab-${name}`));
    at("keys").append(el("h2", {}, "Keys"), el("dl", {}, ...KEYS.flatMap(([keys, what]) => [el("dt", {}, ...keys.split(" ").map((key) => (/^(or|wheel,|drag|Tab,)$/.test(key) ? ` ${key} ` : el("kbd", {}, key)))), el("dd", {}, what)])),
      el("form", { method: "dialog" }, el("p", {}, " "), el("button", {}, "Close")));
    at("help").addEventListener("click", () => at("keys").showModal());
    at("theme").addEventListener("click", () => this.toggleTheme());
    at("query").addEventListener("input", () => this.find(at("query").value));
    at("search").addEventListener("submit", (event) => event.preventDefault());
    at("query").addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.views[this.view].nextHit(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") { at("query").value = ""; this.find(""); at("query").blur(); }
      event.stopPropagation();
    });
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("hashchange", () => this.route());
    this.route();
  },

  // #passes/fusion%231, #kernels/3, #memory, #lines
  route() {
    const [name, ...rest] = decodeURIComponent(location.hash.slice(1)).split("/");
    const part = rest.join("/");
    const pass = D.passes.findIndex((each) => each.name === part);
    const first = D.passes.findIndex((each, index) => this.views.passes.before(index) !== each.graph);
    this.views.passes.choose(pass >= 0 ? pass : Math.max(0, first));
    this.views.kernels.choose(name === "kernels" && part in D.kernels ? Number(part) : this.views.kernels.order[0] || 0);
    this.show(name in this.views ? name : "passes");
  },

  show(name) {
    this.view = name;
    for (const [other, tab] of Object.entries(this.tabs)) {
      tab.setAttribute("aria-selected", String(other === name));
      document.getElementById(other).hidden = other !== name;
    }
    if (name === "passes") for (const side of this.views.passes.sides) if (side.drawing.graph) side.drawing.begin();
    this.views[name].update();
  },

  showKernel(number) { this.views.kernels.choose(number); this.show("kernels"); },
  showValue(value) { this.show("passes"); this.views.passes.choose(D.passes.length - 1); this.views.passes.pick(value); },

  search(text) { document.getElementById("query").value = text; this.find(text); },

  find(text) {
    const hits = searched(text);
    document.getElementById("found").textContent = text.trim() === "" ? "" : `${hits.size} found`;
    for (const view of Object.values(this.views)) view.find(hits);
  },

  toggleTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  },

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("keys").open) return;
    const names = Object.keys(this.views);
    const index = "1234".indexOf(event.key);
    if (event.key.length === 1 && index >= 0) this.show(names[index]);
    else if (event.key === "/") document.getElementById("query").focus();
    else if (event.key === "?") document.getElementById("keys").showModal();
    else if (event.key === "d") this.toggleTheme();
    else if (!this.views[this.view].key(event)) return;
    event.preventDefault();
  },
};

window.addEventListener("error", (event) => document.querySelector("main").before(el("p", { class: "fault", role: "alert" }, `This page has a fault: ${event.message}`)));
window.addEventListener("unhandledrejection", (event) => document.querySelector("main").before(el("p", { class: "fault", role: "alert" }, `This page has a fault: ${event.reason}`)));
App.start();

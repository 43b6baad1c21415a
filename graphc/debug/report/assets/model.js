"use strict";
// The data of the page and what follows from it. Texts of users only ever become text nodes or
// attributes, never markup.

const D = JSON.parse(document.getElementById("data").textContent);
const [OP, ATTRS, INPUTS, OUTPUTS, REGIONS, LINE, CAUSE, PARENTS, KIND, TITLE] = Array(10).keys();
const SIGN_NAMES = { "=": "", "~": "changed", "-": "removed", "+": "added", "<": "moved", ">": "moved" };
const HEIGHT = 52;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false && value !== undefined)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function outline(kind, width) {
  return D.kinds[kind][2]
    .replace(/AR(\d+)/g, "A$1 $1")
    .replace(/W(-\d+)?/g, (_, less) => String(width + Number(less || 0)));
}

function glyph(kind) {
  return svg("svg", { viewBox: "-2 -2 100 56", class: `k${kind}`, "aria-hidden": "true" },
    svg("path", { class: "shape", d: outline(kind, 96), "stroke-width": 5 }));
}

function short(text) {
  const clean = text.replace(/[\x00-\x1f\x7f]/g, " ");
  return clean.length <= 30 ? clean : `${clean.slice(0, 14)}…${clean.slice(-14)}`;
}
function lineBrief(line) {
  if (line < 0) return "";
  const [file, number] = D.lines[line];
  return `${file.replace(/\\/g, "/").split("/").pop()}:${number}`;
}
const lineText = (line) => (line < 0 ? "" : D.lines[line][2]);
function lineFull(line) { return line < 0 ? "" : `${D.lines[line][0]}:${D.lines[line][1]}`; }
const valueType = (value) => D.values[value][1];
function valueText(value) {
  if (value < 0) return "%?";
  const name = D.values[value][0];
  return name === null ? `%${value}` : `%${value} ${JSON.stringify(name)}`;
}

function duration(seconds) {
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  if (seconds >= 1e-3) return `${(seconds * 1e3).toFixed(seconds >= 0.1 ? 0 : 1)} ms`;
  return `${(seconds * 1e6).toFixed(seconds >= 1e-5 ? 0 : 1)} µs`;
}
function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 999.5 && unit < units.length - 1) { count /= 1000; unit += 1; }
  return `${unit && count < 99.95 ? count.toFixed(1).replace(".0", "") : Math.round(count)} ${units[unit]}`;
}
const counted = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

// A graph as vertices (its inputs, then its nodes) and edges between them.
const drawn = new Map();
function graphOf(number) {
  if (drawn.has(number)) return drawn.get(number);
  const data = D.graphs[number];
  const results = new Set(data.outputs);
  const vertices = [];
  const at = new Map();
  for (const [value, kind] of data.inputs) {
    at.set(value, vertices.length);
    vertices.push({
      node: -1, values: [value], kind, title: short(D.values[value][0] || "input"),
      line: D.values[value][2], regions: [], result: results.has(value),
    });
  }
  const edges = [];
  for (const node of data.nodes) {
    const entry = D.nodes[node];
    entry[INPUTS].forEach((value, operand) => {
      if (at.has(value)) edges.push([at.get(value), vertices.length, operand]);
    });
    for (const value of entry[OUTPUTS]) at.set(value, vertices.length);
    vertices.push({
      node, values: entry[OUTPUTS], kind: entry[KIND], title: entry[TITLE], line: entry[LINE],
      regions: entry[REGIONS], result: entry[OUTPUTS].some((value) => results.has(value)),
    });
  }
  vertices.forEach((vertex, index) => {
    vertex.x = data.x[index];
    vertex.y = data.y[index];
    vertex.w = data.w[index];
  });
  const incident = vertices.map(() => []);
  edges.forEach(([source, target], index) => {
    incident[source].push(index);
    if (target !== source) incident[target].push(index);
  });
  const graph = { number, data, vertices, edges, at, incident, first: data.inputs.length };
  drawn.set(number, graph);
  return graph;
}

// Which vertices of two graphs a pass changed: index -> class name, for each side.
function marksOf(before, after) {
  const left = new Map(), right = new Map();
  const runs = D.diffs[`${before}:${after}`];
  if (!runs) return { left, right };
  const a = D.graphs[before].inputs.length, b = D.graphs[after].inputs.length;
  for (const [sign, from, to, count] of runs) {
    if (sign === "=") continue;
    for (let step = 0; step < count; step += 1) {
      if ("~-<".includes(sign)) left.set(a + from + step, SIGN_NAMES[sign]);
      if ("~+>".includes(sign)) right.set(b + to + step, SIGN_NAMES[sign]);
    }
  }
  return { left, right };
}

function definition(node) {
  const entry = D.nodes[node];
  const operands = entry[INPUTS].map((value) => (value < 0 ? "%?" : `%${value}`)).join(", ");
  const types = entry[OUTPUTS].map(valueType).join(", ");
  const results = entry[OUTPUTS].map(valueText).join(", ");
  return `${results} = ${entry[OP]}(${operands})${entry[ATTRS] ? " " + entry[ATTRS] : ""} : ${types}`;
}

// What the search looks through: for each value its number, name, operations and line.
let haystack = null;
function searched(query) {
  if (haystack === null) {
    const ops = D.values.map(() => new Set());
    for (const entry of D.nodes) for (const value of entry[OUTPUTS]) ops[value].add(entry[OP]);
    haystack = D.values.map(([name, type, line], value) =>
      [`%${value}`, name || "", type, ...ops[value], lineFull(line), lineText(line)].join("\n").toLowerCase());
  }
  const wanted = query.trim().toLowerCase();
  const found = new Set();
  if (wanted === "") return found;
  const exact = /^%\d+$/.test(wanted);
  haystack.forEach((text, value) => {
    if (exact ? wanted === `%${value}` : text.includes(wanted)) found.add(value);
  });
  return found;
}

// Texts of kernels travel compressed; [kernel IR, LLVM IR, assembly, schedule] for each.
let texts = null;
function kernelTexts() {
  if (texts === null) texts = unpacked(document.getElementById("texts").textContent);
  return texts;
}
async function unpacked(encoded) {
  const packed = Uint8Array.from(atob(encoded), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

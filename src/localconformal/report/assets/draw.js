// Numbers, scales and SVG: the elements of every chart.
// Texts from data only ever become text nodes or attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";
// Number of ticks along a vertical axis.
const UPWARDS = 5;

function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function html(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// "NaN", "Infinity" and "-Infinity" come as strings: JSON has no such numbers.
const number = (value) => Number(value);

// Like text.say_number in Python: thousands commas and four digits.
function say(value) {
  const v = number(value);
  if (Number.isNaN(v)) return "–";
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
  return written(Number(v.toPrecision(4)));
}

// A count, in full.
const count = (value) => sayTick(value, 1);

// Like text.say_tick: the digits that distinguish a number from its neighbours a step away.
function sayTick(value, step) {
  const v = number(value);
  if (!(Number.isFinite(v) && Number.isFinite(step) && step > 0)) return say(v);
  const digits = 1 - Math.floor(Math.log10(step));
  return written(Number(v.toFixed(Math.min(Math.max(digits, 0), 100))));
}

// All digits of a number; powers of ten if it is very large or very small.
function written(v) {
  const size = Math.abs(v);
  const text = size !== 0 && (size >= 1e15 || size < 1e-4)
    ? Number(v.toPrecision(15)).toExponential().replace(/e([+-])(\d)$/, "e$10$2")
    : v.toLocaleString("en-GB", { maximumSignificantDigits: 15 });
  return (v === 0 ? "0" : text).replaceAll("-", "−");
}

function percent(value, digits = 1) {
  const v = number(value);
  return Number.isNaN(v) ? "–" : `${(100 * v).toFixed(digits)} %`;
}

function scale(low, high, start, end) {
  const span = high - low || 1;
  const place = (v) => start + (end - start) * Math.min(Math.max((v - low) / span, 0), 1);
  return Object.assign(place, { low, high, start, end });
}

// Round numbers inside [low, high], about as many as requested.
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) found.push(i * step || 0);
  return found;
}

const text = (x, y, content, attributes = {}) => svg("text", { x, y, ...attributes }, content);
const line = (x1, y1, x2, y2, kind) => svg("line", { x1, y1, x2, y2, class: kind });

// The axes of a chart with a vertical axis from low to high; its labels have room on the left.
function frame(width, height, low, high) {
  const places = ticks(low, high, UPWARDS);
  const longest = Math.max(...places.map((tick) => sayTick(tick, places[1] - places[0]).length));
  return { left: Math.max(44, 14 + 7 * longest), right: width - 12, top: 34, bottom: height - 46 };
}

// Vertical grid lines with their values underneath; the name of the axis below.
function xAxis(place, top, bottom, format, name, count) {
  const parts = [];
  const places = ticks(place.low, place.high, count);
  for (const tick of places) {
    parts.push(line(place(tick), top, place(tick), bottom, "rule"));
    parts.push(text(place(tick), bottom + 18, format(tick, places[1] - places[0]), { class: "tick", "text-anchor": "middle" }));
  }
  if (name) parts.push(text(place.end, bottom + 38, name, { class: "axis", "text-anchor": "end" }));
  return parts;
}

function yAxis(place, left, right, format, name, count) {
  const parts = [];
  const places = ticks(place.low, place.high, count);
  for (const tick of places) {
    parts.push(line(left, place(tick), right, place(tick), "rule"));
    parts.push(text(left - 8, place(tick) + 4, format(tick, places[1] - places[0]), { class: "tick", "text-anchor": "end" }));
  }
  if (name) parts.push(text(0, place.end - 14, name, { class: "axis" }));
  return parts;
}

const SHAPES = {
  under: "M-5.5,-4.6L5.5,-4.6L0,5.5Z",
  over: "M-5.5,4.6L5.5,4.6L0,-5.5Z",
  apart: "M0,-6L6,0L0,6L-6,0Z",
  within: "M4.5,0A4.5,4.5 0 1 1 -4.5,0A4.5,4.5 0 1 1 4.5,0Z",
};

function mark(x, y, state) {
  return svg("path", { d: SHAPES[state] || SHAPES.within, transform: `translate(${x},${y})`, class: "dot" });
}

// As much of a label as fits, estimated by pixels per letter; cut in the middle, as conditions come last.
function fit(label, width) {
  const most = Math.max(4, Math.floor(width / 6.6));
  const tail = Math.floor(most / 3);
  return label.length <= most ? label : `${label.slice(0, most - tail - 1).trimEnd()}…${label.slice(-tail).trimStart()}`;
}

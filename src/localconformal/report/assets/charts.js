// One function per kind of chart: (spec, columns, width) -> [height, SVG nodes].

function zip(columns) {
  const names = Object.keys(columns);
  return columns[names[0]].map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

// The same ends for every option, so that options can be compared by eye.
function forestEnds(spec) {
  const all = spec.options.flatMap((option) => zip(option.columns));
  const finite = (names) => all.flatMap((row) => names.map((name) => number(row[name]))).filter(Number.isFinite);
  if (!spec.share) return null;
  const low = Math.min(spec.reference - 0.05, ...finite(["value"]).map((v) => v - 0.04));
  return [Math.max(0, Math.floor(low * 20) / 20), 1];
}

function differenceEnds(rows) {
  const ends = rows.flatMap((row) => [row.lower, row.upper, row.value]).map(number).filter(Number.isFinite);
  const low = Math.min(0, ...ends);
  const high = Math.max(0, ...ends);
  const room = (high - low || 1) * 0.06;
  return [low - room, high + room];
}

// The longest label of all options, so that the axis does not move when another is chosen.
function labelRoom(spec, width) {
  const longest = Math.max(...spec.options.flatMap((option) => option.columns.label.map((label) => label.length)));
  return Math.min(longest * 6.8 + 28, width * 0.42);
}

function forest(spec, columns, width) {
  const rows = zip(columns);
  const narrow = width < 420;
  const left = narrow ? 4 : labelRoom(spec, width);
  const right = width - (narrow ? 62 : 70);
  const step = narrow ? 46 : 30;
  const [low, high] = forestEnds(spec) || differenceEnds(rows);
  const place = scale(low, high, left, right - 8);
  const top = 24;
  const bottom = top + step * rows.length;
  const format = spec.share ? (v) => percent(v, 0) : sayTick;
  const exact = spec.share ? percent : say;
  const target = place(spec.reference);
  const nodes = xAxis(place, top, bottom, format, "", narrow ? 3 : 5);
  nodes.push(line(target, top - 4, target, bottom, "target"));
  const anchor = target < 40 ? "start" : target > right - 60 ? "end" : "middle";
  const name = spec.share ? `target ${format(spec.reference)}` : "no difference";
  nodes.push(text(target, top - 10, name, { class: "axis", "text-anchor": anchor }));
  if (spec.expected) {
    const [from, to] = spec.expected.map((share) => place(number(share)));
    const middle = top + step * (narrow ? 0.68 : 0.5);
    nodes.push(svg("rect", { x: from, y: middle - 10, width: Math.max(1, to - from), height: 20, class: "expected" }));
  }
  rows.forEach((row, i) => {
    const middle = top + step * (i + (narrow ? 0.68 : 0.5));
    const group = svg("g", { class: `mark ${row.state}`, "data-tip": forestTip(row, exact) });
    group.append(
      svg("rect", { x: 0, y: top + step * i, width, height: step, class: "hit" }),
      text(narrow ? left : left - 16, narrow ? middle - 14 : middle + 4,
        fit(row.label, narrow ? width - 8 : left - 18), { class: "label", "text-anchor": narrow ? "start" : "end" }),
      text(width - 4, middle + 4, exact(row.value), { class: "value", "text-anchor": "end" }),
    );
    if (!Number.isNaN(number(row.lower))) {
      group.append(line(place(number(row.lower)), middle, place(number(row.upper)), middle, "range"));
    }
    if (!Number.isNaN(number(row.value))) group.append(mark(place(number(row.value)), middle, row.state));
    nodes.push(group);
  });
  return [bottom + 28, nodes];
}

function forestTip(row, exact) {
  return `${row.label}\n${exact(row.value)} (${exact(row.lower)} to ${exact(row.upper)})\n${count(row.rows)} rows`;
}

function scatter(spec, columns, width) {
  const rows = zip(columns);
  const height = Math.min(420, Math.max(280, width * 0.62));
  const [right, top] = spec.ends.map((end) => (number(end) || 1) * 1.04);
  const box = frame(width, height, 0, top);
  const x = scale(0, right, box.left, box.right);
  const y = scale(0, top, box.bottom, box.top);
  const nodes = [
    ...yAxis(y, box.left, box.right, sayTick, "distance of y from the centre", UPWARDS),
    ...xAxis(x, box.top, box.bottom, sayTick, "length of the interval", width < 560 ? 4 : 7),
  ];
  const end = Math.min(x.high, 2 * y.high);
  // Misses last: they must not hide under the many.
  for (const row of [...rows].sort((a, b) => Number(b.covered) - Number(a.covered))) {
    const tip = `length ${say(row.length)}, error ${say(row.error)}\n${row.covered ? "covered" : "missed"}`;
    nodes.push(svg("circle", {
      cx: x(row.length), cy: y(row.error), r: row.covered ? 2.2 : 2.8, class: row.covered ? "point" : "point miss", "data-tip": tip,
    }));
  }
  nodes.push(line(x(0), y(0), x(end), y(end / 2), "target"));
  return [height, nodes];
}

// A number of a row that has an interval, with the digits that matter relative to its length.
function inRow(row, value) {
  return sayTick(value, (number(row.upper) - number(row.lower)) / 10);
}

function predictions(spec, columns, width) {
  const height = Math.min(460, Math.max(300, width * 0.55));
  const [low, high] = spec.ends.map(number);
  const [first, last] = [Math.min(...columns.predicted), Math.max(...columns.predicted)];
  const room = (last - first || Math.abs(last) || 1) * 0.03;
  const box = frame(width, height, low, high);
  const x = scale(first - room, last + room, box.left, box.right);
  const y = scale(low, high, box.bottom, box.top);
  const nodes = [
    ...yAxis(y, box.left, box.right, sayTick, "observed", UPWARDS),
    ...xAxis(x, box.top, box.bottom, sayTick, "predicted", width < 560 ? 4 : 7),
  ];
  // Misses last: they must not hide under the many.
  for (const row of zip(columns).sort((a, b) => Number(b.covered) - Number(a.covered))) {
    const place = x(number(row.predicted));
    const tip = `row ${count(row.row)}: predicted ${inRow(row, row.predicted)}, observed ${inRow(row, row.observed)}\n${inRow(row, row.lower)} to ${inRow(row, row.upper)}`;
    nodes.push(
      svg("g", { class: row.covered ? "mark row" : "mark row miss", "data-tip": tip },
        line(place, y(number(row.lower)), place, y(number(row.upper)), "range"),
        svg("circle", { cx: place, cy: y(number(row.observed)), r: row.covered ? 2 : 3, class: "dot" })),
    );
  }
  const [from, to] = [Math.max(x.low, low), Math.min(x.high, high)];
  if (from < to) nodes.push(line(x(from), y(from), x(to), y(to), "target"));
  return [height, nodes];
}

function intervals(spec, columns, width) {
  const rows = zip(columns);
  const height = Math.min(380, Math.max(260, width * 0.5));
  const end = (number(spec.end) || 1) * 1.05;
  const box = frame(width, height, -end, end);
  const x = scale(0, rows.length, box.left, box.right);
  const y = scale(-end, end, box.bottom, box.top);
  const nodes = yAxis(y, box.left, box.right, sayTick, "difference from the centre", UPWARDS);
  nodes.push(text(box.right, box.bottom + 22, spec.order, { class: "axis", "text-anchor": "end" }));
  rows.forEach((row, i) => {
    const [lower, upper, value, centre] = [row.lower, row.upper, row.y, row.centre].map(number);
    const place = x(i + 0.5);
    const tip = `row ${count(row.row)}: y ${inRow(row, value)}\n${inRow(row, lower)} to ${inRow(row, upper)}`;
    nodes.push(
      svg("g", { class: row.covered ? "mark row" : "mark row miss", "data-tip": tip },
        svg("rect", { x: x(i), y: box.top, width: x(i + 1) - x(i), height: box.bottom - box.top, class: "hit" }),
        line(place, y(lower - centre), place, y(upper - centre), "range"),
        svg("circle", { cx: place, cy: y(value - centre), r: row.covered ? 1.7 : 2.8, class: "dot" })),
    );
  });
  return [height - 10, nodes];
}

const KINDS = { forest, scatter, predictions, intervals };

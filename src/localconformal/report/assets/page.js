// The page: draws the charts, and makes tables sort, filter and unfold.

const CHARTS = JSON.parse(document.getElementById("charts").textContent);
const FIRST_ROWS = 10;
const PAPER_WIDTH = 700;
let drawn = 0;

// ---- charts -------------------------------------------------------------------------------

function chartOf(figure) {
  const spec = CHARTS[figure.dataset.chart];
  return [spec, spec.options[Number(figure.querySelector("select")?.value ?? 0)]];
}

function drawChart(figure, given) {
  const [spec, option] = chartOf(figure);
  const plot = figure.querySelector(".plot");
  const width = given ?? Math.max(260, Math.floor(plot.clientWidth));
  const [height, nodes] = KINDS[spec.kind](spec, option.columns, width);
  drawn += 1;
  const [title, desc] = [`chart-title-${drawn}`, `chart-desc-${drawn}`];
  const name = option.label ? `${spec.title}: ${option.label}` : spec.title;
  figure.querySelector(".chosen")?.replaceChildren(`: ${option.label}`);
  plot.replaceChildren(
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": title, "aria-describedby": desc },
      svg("title", { id: title }, name), svg("desc", { id: desc }, `${spec.lead} The table below has the same numbers.`), ...nodes),
  );
  fillTable(figure);
}

const COUNTS = ["row", "rows"];

function cellText(spec, name, row) {
  const value = row[name];
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (name === "label") return value;
  if (name === "state") return { under: "below", over: "above", apart: "apart", within: "within chance" }[value];
  if (spec.share && name !== "rows") return percent(value);
  if (COUNTS.includes(name)) return count(value);
  return "upper" in row ? inRow(row, value) : say(value);
}

// Built when it is opened: most never are.
function fillTable(figure) {
  const [spec, option] = chartOf(figure);
  const details = figure.querySelector("details");
  const place = details.querySelector(".scroll");
  if (!details.open) {
    place.replaceChildren();
    return;
  }
  const names = Object.keys(option.columns);
  const head = names.map((name) => html("th", { scope: "col" }, name === "label" ? "" : name));
  const body = zip(option.columns).map((row) =>
    html("tr", {}, ...names.map((name, i) => html(i ? "td" : "th", i ? {} : { scope: "row" }, cellText(spec, name, row)))));
  const named = { "aria-label": `${spec.title}, as a table` };
  place.replaceChildren(html("table", named, html("thead", {}, html("tr", {}, ...head)), html("tbody", {}, ...body)));
}

function startCharts() {
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const sizes = new Map();
  const observer = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const width = Math.floor(contentRect.width);
      if (width === 0 || sizes.get(target) === width) continue;
      sizes.set(target, width);
      requestAnimationFrame(() => drawChart(target.closest("figure")));
    }
  });
  for (const figure of figures) {
    const plot = figure.querySelector(".plot");
    drawChart(figure);
    sizes.set(plot, Math.floor(plot.clientWidth));
    observer.observe(plot);
    figure.querySelector("select")?.addEventListener("change", () => drawChart(figure));
    figure.querySelector("details").addEventListener("toggle", () => fillTable(figure));
  }
}

// ---- tooltips -----------------------------------------------------------------------------

const tip = document.getElementById("tip");

function hideTip() {
  tip.hidden = true;
}

function showTip(event) {
  const owner = event.target.closest?.("[data-tip]");
  if (!owner) return hideTip();
  tip.textContent = owner.dataset.tip;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, event.clientX + 14), document.documentElement.clientWidth - width - 8);
  const above = event.clientY - height - 14;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 8 ? above : event.clientY + 18}px`;
}

function startTips() {
  document.addEventListener("pointermove", showTip);
  document.addEventListener("pointerdown", showTip);
  document.addEventListener("scroll", hideTip, { passive: true });
}

// ---- tables that sort and filter ----------------------------------------------------------

function sortKey(row, column) {
  const cell = row.cells[column];
  return "v" in cell.dataset ? number(cell.dataset.v) : cell.textContent.replaceAll(",", "");
}

// Undefined values come last in either direction.
function compare(a, b, way) {
  if (typeof a === "string") return way * a.localeCompare(b, "en", { numeric: true });
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return a === b ? 0 : way * (a < b ? -1 : 1);
}

function sortTable(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const way = heads[column].getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => compare(sortKey(a, column), sortKey(b, column), way));
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
  body.append(...rows);
}

function showRows(section) {
  const asked = document.getElementById("filter").value.trim().toLowerCase();
  const only = document.getElementById("significant").checked;
  const rows = [...section.querySelectorAll("tbody tr")];
  const isWanted = (row) =>
    row.cells[0].textContent.toLowerCase().includes(asked) && !(only && row.dataset.state === "within");
  const wanted = rows.filter(isWanted);
  const more = section.querySelector(".more");
  const shown = new Set(more.dataset.all ? wanted : wanted.slice(0, FIRST_ROWS));
  for (const row of rows) {
    row.hidden = !isWanted(row);
    row.classList.toggle("folded", !row.hidden && !shown.has(row));
  }
  const printed = wanted.filter((row) => shown.has(row) || row.dataset.state !== "within");
  more.hidden = wanted.length <= FIRST_ROWS;
  more.textContent = more.dataset.all ? "Show fewer" : `Show all ${wanted.length}`;
  section.querySelector(".count").textContent = `${shown.size} of ${rows.length} shown.`;
  const which = printed.length < wanted.length ? `: the first ${shown.size}, and all beyond chance` : "";
  section.querySelector(".printed").textContent = `${printed.length} of ${rows.length} printed${which}.`;
}

function startTables() {
  const sections = [...document.querySelectorAll("[data-regions]")];
  for (const section of sections) {
    const name = section.querySelector("h3").textContent.toLowerCase();
    const more = html("button", { type: "button", class: "more", "aria-description": `of the ${name}` });
    more.addEventListener("click", () => {
      if (more.dataset.all) delete more.dataset.all;
      else more.dataset.all = "yes";
      showRows(section);
    });
    section.querySelector(".tally").append(more);
    const table = section.querySelector("table");
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        sortTable(table, column);
        showRows(section);
      });
    });
  }
  const showAll = () => sections.forEach(showRows);
  document.getElementById("filter").addEventListener("input", showAll);
  document.getElementById("significant").addEventListener("change", showAll);
  showAll();
}

// ---- print --------------------------------------------------------------------------------

// Charts are as wide as a page, so that their labels match the text in size; all numbers unfold.
function startPrinting() {
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll(".numbers:not([open])")];
    folded.forEach((details) => { details.open = true; });
    figures.forEach((figure) => drawChart(figure, PAPER_WIDTH));
  });
  addEventListener("afterprint", () => {
    folded.forEach((details) => { details.open = false; });
    figures.forEach((figure) => drawChart(figure));
  });
}

// ---- light and dark -----------------------------------------------------------------------

function startTheme() {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    tell();
  });
  system.addEventListener("change", tell);
  tell();
}

startTheme();
startTables();
startCharts();
startTips();
startPrinting();

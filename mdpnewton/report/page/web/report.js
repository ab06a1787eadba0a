"use strict";
// Shows the page that is in the element "data". Whatever comes from a run is text: `textContent` and
// attributes of a fixed name, never markup.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const SPEEDS = [0.25, 0.5, 1, 2, 4];
  const ROWS = 15; // of a table that are shown at first
  const POLL = 1000; // milliseconds
  const root = document.documentElement;
  const place = document.getElementById("page");
  const live = document.body.dataset.live === "yes";
  const kept = new Map(); // what the reader has chosen, by part: it outlives drawing anew
  let page = JSON.parse(document.getElementById("data").textContent);
  let drawn = []; // functions that draw the canvases of the page again
  let plots = [];
  let timers = [];
  let numbered = 0;

  // Elements

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value === true) made.setAttribute(key, "");
      else if (value !== false && value != null) made.setAttribute(key, String(value));
    }
    made.append(...children.filter((one) => one != null));
    return made;
  }

  function drawing(name, attributes, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
    made.append(...children);
    return made;
  }

  const remembered = (key, first) => {
    if (!kept.has(key)) kept.set(key, first);
    return kept.get(key);
  };
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const identity = () => `part-${++numbered}`;

  function told(value) {
    if (value == null) return "-";
    if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en");
    const size = Math.abs(value);
    if (size >= 1e4 && size < 1e9) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(4)));
  }

  function tick(value) {
    const size = Math.abs(value);
    if (size >= 1e9 || (size > 0 && size < 1e-3)) {
      return value.toExponential(1).replace(".0e", "e").replace("e+", "e");
    }
    if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))}M`;
    if (size >= 1e4) return `${Number((value / 1e3).toPrecision(4))}k`;
    return String(Number(value.toPrecision(4)));
  }

  // Charts

  function palette(number) {
    return color(`--line-${number % 10}`);
  }

  function faded(text, alpha) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
    return `rgba(${r}, ${g}, ${b}, ${alpha})`;
  }

  const same = (one, other) =>
    one.length === other.length && one.every((value, n) => value === other[n]);

  function chart(part, key) {
    const state = remembered(key, { hidden: {}, runs: false, table: false, range: null });
    const figure = element("figure", { class: "chart" });
    const caption = element("figcaption", { id: identity() }, part.title);
    const box = element("div", {
      class: "plot", tabindex: "0", role: "group", "aria-roledescription": "chart",
      "aria-label": `${part.title}: ${part.y} over ${part.x}. ${summary(part)} Arrow keys move the cursor, Escape shows everything.`,
    });
    const readout = element("p", { class: "readout", "aria-live": "polite" });
    const legend = element("div", { class: "legend", role: "group", "aria-label": "Curves" });
    const reset = element("button", { type: "button", class: "small", hidden: !state.range,
      onclick: () => whole() }, "Whole range");
    figure.append(caption, box, readout, legend);
    let plot = null;
    let columns = null; // of the table: name and values over the joined axis

    function whole() {
      if (!plot) return;
      const xs = plot.data[0];
      const ends = { min: xs[0], max: xs[xs.length - 1] };
      const group = part.sync ? plots.filter((one) => one.sync === part.sync) : [{ plot, state }];
      for (const one of group) {
        one.state.range = null;
        one.plot.setScale("x", ends);
      }
      for (const one of figure.closest("section").querySelectorAll("button.reset")) one.hidden = true;
      reset.hidden = true;
    }

    function build() {
      const tables = [], series = [{}], bands = [];
      const names = [part.x];
      part.curves.forEach((curve, n) => {
        const line = palette(n);
        const hidden = !!state.hidden[curve.name];
        const twin = part.curves.findIndex((one) => same(one.y, curve.y) && same(one.x, curve.x)) < n;
        const group = [curve.x];
        const add = (values, options) => {
          group.push(values);
          series.push({ scale: "y", ...options });
        };
        if (curve.high.length) {
          const at = series.length;
          const bare = { show: !hidden, stroke: "transparent", width: 0, points: { show: false }, of: n };
          add(curve.high, bare);
          add(curve.low, bare);
          bands.push({ series: [at, at + 1], fill: faded(line, 0.18) });
        }
        curve.runs.forEach((run) => add(run, {
          show: !hidden && state.runs, stroke: faded(line, 0.45), width: 0.8,
          points: { show: false }, of: n, single: true,
        }));
        const few = curve.x.length <= 30;
        add(curve.y, {
          show: !hidden, stroke: line, width: 2, of: n, main: true, label: curve.name,
          dash: twin ? [7, 7] : n >= 10 ? [10, 4] : undefined,
          paths: curve.points ? () => null : undefined,
          points: curve.points
            ? { show: true, size: 6, fill: faded(line, 0.75), width: 0 }
            : { show: few, size: 5, fill: line },
        });
        tables.push(group);
      });
      const data = tables.length === 1 ? tables[0] : uPlot.join(tables);
      columns = { x: data[0], lines: [] };
      series.forEach((one, n) => {
        if (one.main) columns.lines.push({ name: one.label, values: data[n], index: n, of: one.of });
      });
      const scale = part.scale.split(" ");
      const levels = part.levels.map((one) => one.y);
      const xs = data[0];
      const axis = {
        stroke: color("--quiet"), grid: { stroke: color("--grid"), width: 1 },
        ticks: { stroke: color("--grid"), width: 1, size: 4 }, font: "12px system-ui, sans-serif",
        labelFont: "12px system-ui, sans-serif", labelSize: 18,
      };
      const only = xs.length === 1 ? [xs[0] - 1, xs[0] + 1] : null;
      const options = {
        width: Math.max(box.clientWidth, 200),
        height: Math.round(Math.min(Math.max(box.clientWidth * 0.5, 190), 300)),
        legend: { show: false },
        cursor: {
          sync: part.sync ? { key: part.sync, setSeries: false } : undefined,
          drag: { x: true, y: false, uni: 10 }, points: { size: 7 }, focus: { prox: -1 },
        },
        scales: {
          x: { time: false, range: (u, min, max) => only || [min, max] },
          y: vertical(scale, levels, state),
        },
        axes: [
          { ...axis, label: part.x, labelGap: 0, size: 34, values: (u, ticks) => ticks.map(tick),
            incrs: integers(part.x) },
          { ...axis, label: part.y, size: (u, values) =>
            Math.max(38, 14 + 7 * Math.max(0, ...(values || []).map((one) => (one || "").length))),
            values: (u, ticks) => ticks.map((one) => (one == null ? "" : tick(one))),
            filter: (u, splits) => splits,
            splits: scale[0] ? (u, side, min, max) => decades(scale, min, max) : undefined },
        ],
        series, bands,
        hooks: {
          draw: [(u) => drawLevels(u, part.levels)],
          setCursor: [(u) => read(u)],
          setSelect: [],
          setScale: [(u, name) => {
            if (name !== "x" || !u.data || !u.data[0].length) return;
            const [first, last] = [u.data[0][0], u.data[0][u.data[0].length - 1]];
            const { min, max } = u.scales.x;
            const zoomed = min > first || max < last;
            state.range = zoomed ? { min, max } : null;
            reset.hidden = !zoomed;
          }],
        },
      };
      if (plot) plot.destroy();
      box.replaceChildren();
      plot = new uPlot(options, data, box);
      if (state.range) plot.setScale("x", state.range);
      plots = plots.filter((one) => one.box !== box);
      plots.push({ box, plot, state, sync: part.sync });
      box.plot = plot; // for those who look at the page from outside
      paintLegend();
    }

    function read(u) {
      const at = u.cursor.idx;
      if (at == null || u.cursor.left < 0) {
        readout.textContent = "";
        return;
      }
      const values = columns.lines
        .filter((line) => !state.hidden[line.name] && line.values[at] != null)
        .map((line) => (columns.lines.length > 1 ? `${line.name} ${told(line.values[at])}` : told(line.values[at])));
      readout.textContent = `${part.x} ${told(columns.x[at])}: ${values.join(", ") || "-"}`;
    }

    function paintLegend() {
      legend.replaceChildren();
      const several = part.curves.length > 1;
      part.curves.forEach((curve, n) => {
        if (!several && !part.levels.length) return;
        const mark = element("span", { class: curve.points ? "dot" : "dash", "aria-hidden": "true" });
        mark.style.setProperty("--mark", palette(n));
        legend.append(element("button", {
          type: "button", class: "entry", "aria-pressed": String(!state.hidden[curve.name]),
          title: "Show or hide this curve",
          onclick: (event) => {
            state.hidden[curve.name] = !state.hidden[curve.name];
            event.currentTarget.setAttribute("aria-pressed", String(!state.hidden[curve.name]));
            plot.series.forEach((one, index) => {
              if (index && one.of === n) {
                plot.setSeries(index, { show: !state.hidden[curve.name] && (!one.single || state.runs) });
              }
            });
          },
        }, mark, curve.name));
      });
      part.levels.forEach((one) => {
        const mark = element("span", { class: "dots", "aria-hidden": "true" });
        legend.append(element("span", { class: "entry" }, mark, `${one.name} ${told(one.y)}`));
      });
      const runs = Math.max(0, ...part.curves.map((one) => one.runs.length));
      if (runs) {
        legend.append(element("button", {
          type: "button", class: "small runs", "aria-pressed": String(state.runs),
          onclick: (event) => {
            state.runs = !state.runs;
            event.currentTarget.setAttribute("aria-pressed", String(state.runs));
            plot.series.forEach((one, index) => {
              if (one.single) plot.setSeries(index, { show: state.runs && !state.hidden[part.curves[one.of].name] });
            });
          },
        }, `All ${runs} single runs`));
      }
      reset.classList.add("reset");
      legend.append(reset);
    }

    box.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 };
      if (event.key === "Escape") whole();
      if (!(event.key in moves) || !plot) return;
      event.preventDefault();
      const last = plot.data[0].length - 1;
      const from = plot.cursor.idx == null ? (moves[event.key] > 0 ? -1 : last + 1) : plot.cursor.idx;
      const to = Math.min(Math.max(from + moves[event.key], 0), last);
      plot.setCursor({ left: plot.valToPos(plot.data[0][to], "x"), top: 10 });
    });
    box.addEventListener("dblclick", whole);
    if (part.note) figure.append(element("p", { class: "note" }, part.note));
    figure.append(details("Values as a table", state, () => valueTable(part, columns)));
    drawn.push(build);
    return figure;
  }

  function vertical(scale, levels, state) {
    if (scale[0] === "log") return { distr: 3, range: (u, low, high) => (low == null ? [1, 10] : [low / 1.25, high * 1.25]) };
    if (scale[0] === "asinh") {
      const range = (u, low, high) => {
        if (low == null) return [-1, 1];
        const margin = 0.25 * Math.max(Math.abs(low), Math.abs(high), Number(scale[1]));
        return [low < 0 ? low - margin : low, high > 0 ? high + margin : high === low ? 1 : high];
      };
      return { distr: 4, asinh: Number(scale[1]), range };
    }
    return {
      range: (u, low, high) => {
        if (low == null) return [0, 1];
        const every = state.range ? [low, high] : [low, high, ...levels];
        const [min, max] = [Math.min(...every), Math.max(...every)];
        const margin = (max - min) * 0.06 || Math.abs(max) * 0.1 || 1;
        return [min - margin, max + margin];
      },
    };
  }

  function integers(name) {
    // Iterations and the like have no halves.
    const every = [];
    for (let size = 1; size < 1e12; size *= 10) every.push(size, 2 * size, 5 * size);
    return /iteration|step|update|rank|transition|episode|game/.test(name) ? every : undefined;
  }

  function decades(scale, min, max) {
    // Powers of ten, at most six on each side of zero; between two of them, their multiples.
    const powers = (low, high) => {
      const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
      if (last - first < 1) {
        const size = 10 ** Math.floor(Math.log10(high));
        const among = (multiples) => multiples.flatMap((one) => [one * size / 10, one * size]).sort((a, b) => a - b)
          .filter((one) => one >= low * (1 - 1e-9) && one <= high * (1 + 1e-9));
        const found = among([1, 2, 5]);
        const every = found.length > 1 ? found : among([1, 2, 3, 4, 5, 6, 7, 8, 9]);
        const near = (high / low) ** 0.12; // labels that are closer lie on each other
        return every.filter((one, n) => n === 0 || one >= every[n - 1] * near);
      }
      const step = Math.ceil((last - first + 1) / 6);
      const found = [];
      for (let power = last; power >= first; power -= step) found.push(Number(`1e${power}`));
      return found.reverse();
    };
    if (scale[0] === "log") return powers(min, max);
    const linear = Number(scale[1]);
    const above = max > linear ? powers(linear, max) : [];
    const below = min < -linear ? powers(linear, -min).reverse().map((one) => -one) : [];
    const few = (values) => (above.length && below.length ? values.filter((_, n) => n % 2 === (values.length - 1) % 2) : values);
    return [...few([...below].reverse()).reverse(), ...(min <= 0 && max >= 0 ? [0] : []), ...few(above)];
  }

  function drawLevels(u, levels) {
    const { left, width } = u.bbox;
    const named = []; // heights of the names at the right
    levels.forEach((one) => {
      const y = u.valToPos(one.y, "y", true);
      if (!(y >= u.bbox.top - 1 && y <= u.bbox.top + u.bbox.height + 1)) return;
      u.ctx.save();
      u.ctx.strokeStyle = color("--text");
      u.ctx.fillStyle = color("--text");
      u.ctx.globalAlpha = 0.75;
      u.ctx.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
      u.ctx.lineWidth = devicePixelRatio;
      u.ctx.beginPath();
      u.ctx.moveTo(left, y);
      u.ctx.lineTo(left + width, y);
      u.ctx.stroke();
      u.ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      const taken = named.some((other) => Math.abs(other - y) < 13 * devicePixelRatio);
      const gap = 4 * devicePixelRatio;
      u.ctx.textAlign = taken ? "left" : "right";
      u.ctx.textBaseline = y < u.bbox.top + 14 * devicePixelRatio ? "top" : "bottom";
      u.ctx.fillText(one.name, taken ? left + gap : left + width - gap, y + (u.ctx.textBaseline === "top" ? gap : -gap / 2));
      if (!taken) named.push(y);
      u.ctx.restore();
    });
  }

  function summary(part) {
    return part.curves.slice(0, 8).map((curve) => {
      const known = curve.y.filter((one) => one != null);
      return `${curve.name}: ${told(known[0])} to ${told(known[known.length - 1])}.`;
    }).join(" ");
  }

  function valueTable(part, columns) {
    const step = Math.max(1, Math.ceil(columns.x.length / 200));
    const rows = [];
    columns.x.forEach((x, n) => {
      if (n % step && n !== columns.x.length - 1) return;
      rows.push([told(x), ...columns.lines.map((line) => told(line.values[n]))]);
    });
    const head = [part.x, ...columns.lines.map((line) => line.name)];
    return table({ title: "", head, rows, note: step > 1 ? `Every ${step}th point.` : "" }, "", true);
  }

  function details(name, state, make) {
    const inner = element("div", {});
    const fill = () => {
      if (!inner.firstChild) inner.append(make());
    };
    const made = element("details", {}, element("summary", {}, name), inner);
    made.addEventListener("toggle", () => {
      state.table = made.open;
      if (made.open) fill();
    });
    if (state.table) drawn.push(() => { made.open = true; });
    return made;
  }

  // Tables and sentences

  function table(part, key, all) {
    const state = remembered(key || "plain", { all: false });
    const body = element("tbody", {});
    const numeric = part.head.map((_, n) =>
      part.rows.length > 0 && part.rows.every((row) => /^[-–+\d.,e%×\s±]*$/.test(row[n] == null ? "" : row[n])));
    const cell = (text, n) => n === 0
      ? element("th", { scope: "row", class: numeric[n] ? "number" : null }, String(text))
      : element("td", { class: numeric[n] ? "number" : null }, String(text));
    const paint = () => {
      const rows = all || state.all ? part.rows : part.rows.slice(0, ROWS);
      body.replaceChildren(...rows.map((row) => element("tr", {}, ...row.map(cell))));
    };
    paint();
    const titled = part.title ? element("caption", {}, part.title) : null;
    const heads = part.head.map((one, n) =>
      element("th", { scope: "col", class: numeric[n] ? "number" : null }, one));
    const made = element("div", { class: "table" },
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": part.title || "Values" },
        element("table", {}, titled, element("thead", {}, element("tr", {}, ...heads)), body)));
    if (!all && part.rows.length > ROWS) {
      const more = element("button", { type: "button", class: "small", onclick: () => {
        state.all = !state.all;
        more.textContent = label();
        paint();
      } }, "");
      const label = () => (state.all ? "Fewer rows" : `All ${part.rows.length.toLocaleString("en")} rows`);
      more.textContent = label();
      made.append(more);
    }
    if (part.note) made.append(element("p", { class: "note" }, part.note));
    return made;
  }

  function words(part) {
    return element("ul", { class: "words" }, ...part.sentences.map((one) => element("li", {}, one)));
  }

  // Ways of two parameters

  function paths(part, key) {
    const [width, height, left, bottom] = [420, 330, 46, 40];
    const spread = part.high.map((one, n) => (one - part.low[n]) * 0.05 || 1);
    const place = ([x, y]) => [
      left + ((x - part.low[0] + spread[0]) / (part.high[0] - part.low[0] + 2 * spread[0])) * (width - left - 8),
      height - bottom - ((y - part.low[1] + spread[1]) / (part.high[1] - part.low[1] + 2 * spread[1])) * (height - bottom - 8),
    ];
    const art = drawing("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `${part.title}: the ways of ${part.ways.map((one) => one.name).join(", ")}` });
    const label = (x, y, text, anchor, turn) => {
      const made = drawing("text", { x, y, class: "tick", "text-anchor": anchor, transform: turn ? `rotate(-90 ${x} ${y})` : "" });
      made.textContent = text;
      art.append(made);
    };
    for (let n = 0; n <= 4; n++) {
      const at = [0, 1].map((k) => part.low[k] + ((part.high[k] - part.low[k]) * n) / 4);
      const [x, y] = place(at);
      art.append(drawing("line", { x1: x, x2: x, y1: 8, y2: height - bottom, class: "rule" }),
        drawing("line", { x1: left, x2: width - 8, y1: y, y2: y, class: "rule" }));
      label(x, height - bottom + 16, told(Number(at[0].toPrecision(2))), "middle");
      label(left - 6, y + 4, told(Number(at[1].toPrecision(2))), "end");
    }
    label(width / 2, height - 6, part.x, "middle");
    label(12, height / 2, part.y, "middle", true);
    const legend = element("div", { class: "legend" });
    part.ways.forEach((way, n) => {
      const line = drawing("polyline", { points: way.points.map((one) => place(one).join(",")).join(" "), class: "way" });
      line.style.stroke = `var(--line-${n % 10})`;
      line.style.strokeWidth = `${Math.max(9 - 2 * n, 1.5)}px`; // so that those below others are seen
      const [x, y] = place(way.points[way.points.length - 1]);
      const end = drawing("circle", { cx: x, cy: y, r: 4 });
      end.style.fill = `var(--line-${n % 10})`;
      art.append(line, end);
      const mark = element("span", { class: "dash", "aria-hidden": "true" });
      mark.style.setProperty("--mark", `var(--line-${n % 10})`);
      legend.append(element("span", { class: "entry" }, mark, way.name));
    });
    return element("figure", { class: "paths" }, element("figcaption", {}, part.title), art, legend);
  }

  // Matrices

  function heat(part, key) {
    const state = remembered(key, { table: false });
    const n = part.values.length;
    const canvas = element("canvas", {
      tabindex: "0", role: "img",
      "aria-label": `${part.title}: a matrix with ${n} rows and columns, from ${told(-part.most)} to ${told(part.most)}. Arrow keys read its entries.`,
    });
    const readout = element("p", { class: "readout", "aria-live": "polite" });
    const named = n <= 20;
    let at = null, cell = 0, edge = 0;

    function paint() {
      const ratio = devicePixelRatio || 1;
      const ctx = canvas.getContext("2d");
      ctx.font = "11px system-ui, sans-serif";
      const longest = named ? Math.max(...part.names.map((one) => ctx.measureText(cut(one)).width)) : 0;
      edge = named ? Math.ceil(longest) + 8 : 4;
      const room = Math.min((canvas.parentElement.clientWidth || 320) - edge, 300);
      cell = Math.max(room / n, 1);
      const size = edge + cell * n + 1;
      canvas.width = size * ratio;
      canvas.height = size * ratio;
      canvas.style.width = canvas.style.height = `${size}px`;
      ctx.scale(ratio, ratio);
      const [low, middle, high] = ["--low", "--middle", "--high"].map((one) => rgb(color(one)));
      part.values.forEach((row, i) => row.forEach((value, j) => {
        const share = Math.max(-1, Math.min(1, (value || 0) / part.most));
        const end = share < 0 ? low : high;
        const mix = middle.map((one, k) => Math.round(one + (end[k] - one) * Math.sqrt(Math.abs(share))));
        ctx.fillStyle = value == null ? color("--grid") : `rgb(${mix.join(",")})`;
        const gap = cell > 6 ? 0.5 : 0;
        ctx.fillRect(edge + j * cell, edge + i * cell, cell - gap, cell - gap);
      }));
      ctx.font = "11px system-ui, sans-serif";
      ctx.fillStyle = color("--quiet");
      if (named) part.names.forEach((one, k) => {
        ctx.textBaseline = "middle";
        ctx.textAlign = "right";
        ctx.fillText(cut(one), edge - 5, edge + (k + 0.5) * cell);
        ctx.save();
        ctx.translate(edge + (k + 0.5) * cell, edge - 5);
        ctx.rotate(-Math.PI / 2);
        ctx.textAlign = "left";
        ctx.fillText(cut(one), 0, 0);
        ctx.restore();
      });
      if (at) {
        ctx.strokeStyle = color("--text");
        ctx.lineWidth = 2;
        ctx.strokeRect(edge + at[1] * cell, edge + at[0] * cell, cell, cell);
      }
    }

    function choose(i, j) {
      at = [Math.min(Math.max(i, 0), n - 1), Math.min(Math.max(j, 0), n - 1)];
      readout.textContent =
        `row ${part.names[at[0]]}, column ${part.names[at[1]]}: ${told(part.values[at[0]][at[1]])}`;
      paint();
    }

    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      const i = Math.floor((event.clientY - box.top - edge) / cell);
      const j = Math.floor((event.clientX - box.left - edge) / cell);
      if (i >= 0 && j >= 0 && i < n && j < n) choose(i, j);
    });
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!move) return;
      event.preventDefault();
      if (at) choose(at[0] + move[0], at[1] + move[1]);
      else choose(0, 0);
    });
    drawn.push(paint);
    const bar = element("p", { class: "scale" }, told(-part.most),
      element("span", { class: "ramp", "aria-hidden": "true" }), told(part.most));
    const entries = () => {
      const shown = part.values.slice(0, 60);
      const rows = shown.map((row, i) => [part.names[i], ...row.slice(0, 60).map(told)]);
      return table({ title: "", head: ["", ...part.names.slice(0, 60)], rows, note: n > 60 ? "The first 60 rows and columns." : "" }, "", true);
    };
    return element("figure", { class: "heat" }, element("figcaption", {}, part.title),
      element("div", { class: "sheet" }, canvas), readout, bar,
      part.note ? element("p", { class: "note" }, part.note) : null,
      details("Entries as a table", state, entries));
  }

  const cut = (text) => (text.length > 16 ? `${text.slice(0, 15)}…` : text);
  const rgb = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

  // Controllers

  function grouped(lines) {
    const by = new Map();
    for (const one of lines) {
      const likely = one.move < 0.995 ? ` (${told(one.move)})` : "";
      const end = `${one.done}${likely}`;
      by.set(end, [...(by.get(end) || []), one.seen]);
    }
    return [...by].map(([end, seen]) => `${seen.join(", ")}: ${end}`);
  }

  function graph(part, key) {
    const readout = element("div", { class: "readout full", "aria-live": "polite" });
    const size = 760, middle = size / 2, count = part.nodes.length;
    const around = count === 1 ? 0 : 205, radius = count > 12 ? 18 : 25;
    const angle = new Map(part.nodes.map((one, n) => [one.id, -Math.PI / 2 + (2 * Math.PI * n) / count]));
    const spot = (id, far = around) => [middle + far * Math.cos(angle.get(id)), middle + far * Math.sin(angle.get(id))];
    const arrow = identity();
    const tip = drawing("path", { d: "M0,0 L10,4 L0,8 z", class: "tip" });
    const art = drawing("svg", { viewBox: `0 0 ${size} ${size}`, role: "group", "aria-label": part.title },
      drawing("defs", {}, drawing("marker", { id: arrow, viewBox: "0 0 10 8", refX: 9, refY: 4, markerWidth: 10,
        markerHeight: 8, orient: "auto", markerUnits: "userSpaceOnUse" }, tip)));
    const labels = [];
    const crowded = part.edges.length > 14;

    function tellable(shape, name, lines) {
      shape.setAttribute("tabindex", "0");
      shape.setAttribute("role", "img");
      shape.setAttribute("aria-label", `${name}. ${lines.join(". ")}`);
      const show = () => readout.replaceChildren(element("strong", {}, name),
        element("ul", {}, ...lines.map((one) => element("li", {}, one))));
      for (const kind of ["mouseenter", "focus", "click"]) shape.addEventListener(kind, show);
    }

    // Where many edges cross, only those that leave the chosen node have their words.
    const leaving = [];
    function choose(id) {
      if (!crowded) return;
      for (const one of leaving) {
        one.path.classList.toggle("faint", one.from !== id);
        one.label.style.display = one.from === id ? "" : "none";
      }
    }

    function label(x, y, lines, anchor) {
      const most = crowded ? 2 : 3;
      const shown = lines.slice(0, most).map((one) => (one.length > 34 ? `${one.slice(0, 33)}…` : one));
      if (lines.length > most) shown[most - 1] += ` (and ${lines.length - most} more)`;
      const text = drawing("text", { x, y: y - 7 * (shown.length - 1), class: "edge-label", "text-anchor": anchor });
      shown.forEach((one, n) => {
        const span = drawing("tspan", { x, dy: n ? 14 : 0 });
        span.textContent = one;
        text.append(span);
      });
      labels.push(text);
      return text;
    }

    for (const edge of part.edges) {
      const lines = grouped(edge.lines), width = 1.2 + 5 * Math.sqrt(edge.share);
      const [x, y] = spot(edge.from), [u, v] = spot(edge.to);
      let d, lx, ly, anchor = "middle";
      if (edge.from === edge.to) {
        const a = count === 1 ? -Math.PI / 2 : angle.get(edge.from);
        const at = (turn, far) => [x + far * Math.cos(a + turn), y + far * Math.sin(a + turn)];
        const [p, q, r, s] = [at(-0.55, radius), at(-0.6, radius * 3.1), at(0.6, radius * 3.1), at(0.55, radius + 3)];
        d = `M${p} C${q} ${r} ${s}`;
        [lx, ly] = at(0, radius * 2.75);
        anchor = Math.cos(a) > 0.4 ? "start" : Math.cos(a) < -0.4 ? "end" : "middle";
        if (Math.sin(a) < -0.5) ly -= 8;
        if (Math.sin(a) > 0.5) ly += 16;
      } else {
        const [dx, dy] = [u - x, v - y], far = Math.hypot(dx, dy);
        const [nx, ny] = [-dy / far, dx / far], bend = 0.16 * far;
        const [mx, my] = [(x + u) / 2 + nx * bend, (y + v) / 2 + ny * bend];
        const clip = (fx, fy, r) => {
          const h = Math.hypot(mx - fx, my - fy);
          return [fx + ((mx - fx) / h) * r, fy + ((my - fy) / h) * r];
        };
        d = `M${clip(x, y, radius)} Q${mx},${my} ${clip(u, v, radius + 3)}`;
        const t = crowded ? 0.66 : 0.4; // not in the middle, where edges cross
        lx = (1 - t) ** 2 * x + 2 * t * (1 - t) * mx + t * t * u;
        ly = (1 - t) ** 2 * y + 2 * t * (1 - t) * my + t * t * v;
      }
      const path = drawing("path", { d, class: "edge", "stroke-width": width.toFixed(2), "marker-end": `url(#${arrow})` });
      const wide = drawing("path", { d, class: "edge-catch" });
      tellable(wide, `From node ${edge.from} to node ${edge.to}, ${told(100 * edge.share)} % of all moves`, lines);
      art.append(path, wide);
      leaving.push({ from: edge.from, path, label: label(lx, ly, lines, anchor) });
    }
    for (const one of part.starts) {
      if (!one.lines.length) continue;
      const lines = grouped(one.lines);
      const [a, b] = spot(one.node), way = angle.get(one.node) + 1.05; // beside the loop, if there is one
      const [x, y] = [a + (radius + 3) * Math.cos(way), b + (radius + 3) * Math.sin(way)];
      const [u, v] = [a + (radius + 42) * Math.cos(way), b + (radius + 42) * Math.sin(way)];
      art.append(drawing("path", { d: `M${u},${v} L${x},${y}`, class: "start", "marker-end": `url(#${arrow})` }));
      label(u, v + (v >= y ? 16 : -6), [`start: ${lines.join("; ").replaceAll("(none): ", "")}`], u > x + 20 ? "start" : u < x - 20 ? "end" : "middle");
    }
    for (const one of part.nodes) {
      const [x, y] = spot(one.id);
      const circle = drawing("circle", { cx: x, cy: y, r: radius, class: "node" });
      const said = part.edges.filter((edge) => edge.from === one.id)
        .flatMap((edge) => grouped(edge.lines).map((line) => `to ${edge.to}: ${line}`));
      tellable(circle, `Node ${one.id}, reached by ${told(100 * one.share)} % of all moves`, said);
      for (const kind of ["mouseenter", "focus", "click"]) circle.addEventListener(kind, () => choose(one.id));
      const text = drawing("text", { x, y: y + 6, class: "node-label", "text-anchor": "middle" });
      text.textContent = String(one.id);
      art.append(circle, text);
    }
    art.append(...labels);
    if (part.nodes.length) choose((part.starts[0] || { node: part.nodes[0].id }).node);
    drawn.push(() => { // no larger than what is in it
      const box = art.getBBox();
      if (box.width) art.setAttribute("viewBox", [box.x - 8, box.y - 8, box.width + 16, box.height + 16].join(" "));
    });
    return element("figure", { class: "graph" }, element("figcaption", {}, part.title),
      element("div", { class: "scroll" }, art), readout, part.note ? element("p", { class: "note" }, part.note) : null);
  }

  // What moves

  function player(part, key, count, paint) {
    const state = remembered(key, { at: 0, speed: 1, playing: false });
    state.playing = false;
    const slider = element("input", { type: "range", min: 0, max: count - 1, value: state.at, "aria-label": "Frame",
      oninput: () => go(Number(slider.value)) });
    const shown = element("output", { class: "frame" });
    const play = element("button", { type: "button", class: "play", onclick: () => toggle() }, "Play");
    const step = (by, name, sign) =>
      element("button", { type: "button", "aria-label": name, title: name, onclick: () => { stop(); go(state.at + by); } }, sign);
    const speed = element("select", { "aria-label": "Speed", onchange: () => { state.speed = Number(speed.value); } },
      ...SPEEDS.map((one) => element("option", { value: one, selected: one === state.speed }, `${one}×`)));
    let last = 0, due = 0;

    function go(to) {
      state.at = Math.min(Math.max(to, 0), count - 1);
      slider.value = String(state.at);
      slider.setAttribute("aria-valuetext", `${state.at + 1} of ${count}`);
      shown.textContent = `${state.at + 1} / ${count}`;
      paint(state.at);
    }
    function stop() {
      state.playing = false;
      play.textContent = "Play";
    }
    function toggle() {
      if (state.playing) return stop();
      if (state.at === count - 1) go(0);
      state.playing = true;
      play.textContent = "Pause";
      last = performance.now();
      due = 0;
      requestAnimationFrame(frame);
    }
    function frame(now) {
      if (!state.playing || !play.isConnected) return;
      due += ((now - last) * state.speed) / part.milliseconds;
      last = now;
      if (due >= 1) {
        const by = Math.floor(due);
        due -= by;
        go(state.at + by);
        if (state.at === count - 1) return stop();
      }
      requestAnimationFrame(frame);
    }
    drawn.push(() => go(state.at));
    return element("div", { class: "player", role: "group", "aria-label": `Player: ${part.title}` },
      play, step(-1, "One frame back", "◀"), step(1, "One frame on", "▶"), slider, shown, speed);
  }

  function film(part, key) {
    const canvas = element("canvas", { width: part.width, height: part.height, role: "img", "aria-label": part.title });
    const picture = new Image();
    let at = 0;
    const paint = (n) => {
      at = n;
      if (!picture.complete || !picture.naturalWidth) return;
      const [column, row] = [n % part.columns, Math.floor(n / part.columns)];
      canvas.getContext("2d").drawImage(picture, column * part.width, row * part.height, part.width, part.height,
        0, 0, part.width, part.height);
    };
    picture.addEventListener("load", () => paint(at));
    picture.src = part.source;
    return element("figure", { class: "film" }, element("figcaption", {}, part.title), canvas,
      player(part, key, part.frames, paint));
  }

  function square(ctx, canvas, width, height) {
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
  }

  function game(part, key) {
    const canvas = element("canvas", { role: "img", "aria-label": part.title });
    const cell = Math.max(8, Math.min(24, Math.floor(420 / part.height)));
    const colors = { "#": "--line-0", O: "--line-1" };
    const paint = (n) => {
      const ctx = canvas.getContext("2d");
      square(ctx, canvas, part.width * cell, part.height * cell);
      for (let at = 0; at < part.boards[n].length; at++) {
        const [x, y] = [at % part.width, Math.floor(at / part.width)];
        const name = colors[part.boards[n][at]];
        ctx.fillStyle = name ? color(name) : color("--grid");
        ctx.fillRect(x * cell + 1, y * cell + 1, cell - 2, cell - 2);
      }
    };
    return element("figure", { class: "film" }, element("figcaption", {}, part.title), canvas,
      player(part, key, part.boards.length, paint));
  }

  function episode(part, key) {
    const count = part.observations.length;
    const steps = part.observations.map((_, n) => n);
    const lines = (rows, name) => (rows[0] || []).slice(0, 8).map((_, n) => ({
      name: `${name} ${n}`, x: steps, y: rows.map((row) => (row[n] === undefined ? null : row[n])),
      low: [], high: [], runs: [], points: false,
    }));
    const charts = [];
    const add = (title, y, curves) => {
      if (!curves.length) return;
      charts.push(chart({ title, x: "step", y, curves, scale: "", levels: [], sync: key, note: "" }, `${key}/${title}`));
    };
    add("Observations", "value", lines(part.observations, "observation"));
    add("Actions", "value", lines(part.actions, "action"));
    if (part.rewards.length === count) add("Rewards", "reward", lines(part.rewards.map((one) => [one]), "reward"));
    const canvas = part.pole.length === count
      ? element("canvas", { role: "img", "aria-label": "The pole" }) : null;
    const follow = (n) => {
      if (canvas) pole(canvas, part.pole[n]);
      const shown = plots.find((one) => one.sync === key);
      if (shown) shown.plot.setCursor({ left: shown.plot.valToPos(n, "x"), top: 10 });
    };
    return element("figure", { class: "film wide" }, element("figcaption", {}, part.title), canvas,
      player(part, key, count, follow), element("div", { class: "grid" }, ...charts));
  }

  function pole(canvas, angle) {
    const ctx = canvas.getContext("2d");
    square(ctx, canvas, 260, 220);
    const [x, y, far] = [130, 112, 84];
    ctx.strokeStyle = color("--grid");
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.moveTo(20, y + 14);
    ctx.lineTo(240, y + 14);
    ctx.stroke();
    ctx.fillStyle = color("--quiet");
    ctx.fillRect(x - 28, y - 12, 56, 24);
    ctx.strokeStyle = color("--line-0");
    ctx.lineCap = "round";
    ctx.lineWidth = 9;
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x + far * Math.sin(angle), y - far * Math.cos(angle));
    ctx.stroke();
    ctx.fillStyle = color("--text");
    ctx.beginPath();
    ctx.arc(x, y, 5, 0, 7);
    ctx.fill();
  }

  // The page

  const KINDS = { chart, table, heat, graph, paths, film, game, episode, words };
  const MARKS = { good: "✓", bad: "✗", open: "•" };

  function header() {
    const verdict = page.verdict;
    const themes = element("div", { class: "themes", role: "group", "aria-label": "Colours" },
      ...["auto", "light", "dark"].map((one) => element("button", {
        type: "button", class: "small", "data-theme-name": one, "aria-pressed": String(theme() === one),
        onclick: () => setTheme(one),
      }, one)));
    const save = element("button", { type: "button", class: "small", onclick: download }, "Data as JSON");
    const state = page.state ? element("p", { class: page.running ? "state running" : "state", role: "status" }, page.state) : null;
    return element("header", {},
      element("div", { class: "tools" }, element("span", { class: "brand" }, "mdpnewton"), themes, save),
      element("h1", {}, page.title), state,
      element("p", { class: `verdict ${MARKS[verdict.status] ? verdict.status : "open"}` },
        element("span", { class: "mark", "aria-hidden": "true" }, MARKS[verdict.status] || "•"), verdict.sentence));
  }

  function download() {
    const content = JSON.stringify(page.download, null, 1);
    const link = element("a", { download: "report.json" });
    link.href = URL.createObjectURL(new Blob([content], { type: "application/json" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function section(one, number) {
    const many = one.parts.filter((part) => ["chart", "heat", "paths"].includes(part.kind)).length > 1;
    const parts = one.parts.map((part, n) => {
      const key = `${one.title}/${part.title}/${n}`;
      const make = KINDS[part.kind];
      const made = make ? make(part, key) : element("p", {}, "");
      made.classList.add("part", part.kind);
      return made;
    });
    const facts = element("div", { class: "facts" }); // short tables of names and values, side by side
    const short = (n) => one.parts[n] && one.parts[n].kind === "table" && one.parts[n].head.length === 2 && one.parts[n].head[0] === "";
    parts.forEach((made, n) => {
      if (!short(n)) return;
      made.classList.add("pair");
      facts.append(made);
    });
    const rest = parts.filter((_, n) => !short(n));
    if (facts.firstChild) rest.push(facts);
    return element("section", { id: `section-${number}`, class: one.title === "Warnings" ? "warnings" : null,
      "aria-labelledby": `heading-${number}` },
      element("h2", { id: `heading-${number}` }, one.title),
      element("div", { class: many ? "grid" : "stack" }, ...rest));
  }

  function render() {
    for (const one of plots) one.plot.destroy();
    [plots, drawn] = [[], []];
    const links = page.sections.map((one, n) =>
      element("li", {}, element("a", { href: `#section-${n}` }, one.title)));
    const contents = element("nav", { "aria-label": "Contents" }, element("ul", {}, ...links));
    place.replaceChildren(header(), contents, ...page.sections.map(section),
      element("footer", {}, "One file that needs no network: charts by uPlot (MIT licence)."));
    paint();
  }

  function paint() {
    for (const one of drawn) one();
  }

  function theme() {
    return root.dataset.theme || "auto";
  }

  function setTheme(name) {
    if (name === "auto") delete root.dataset.theme;
    else root.dataset.theme = name;
    try {
      localStorage.setItem("mdpnewton-theme", name);
    } catch (error) { /* some browsers keep nothing for files */ }
    for (const one of document.querySelectorAll("[data-theme-name]")) {
      one.setAttribute("aria-pressed", String(one.dataset.themeName === name));
    }
    paint();
  }

  async function follow() {
    let stamp = null;
    for (;;) {
      await new Promise((done) => timers.push(setTimeout(done, POLL)));
      try {
        const answer = await fetch(`data.json?have=${stamp || ""}`, { cache: "no-store" });
        if (answer.status === 200) {
          stamp = answer.headers.get("X-Stamp");
          const [x, y] = [scrollX, scrollY];
          page = await answer.json();
          document.title = page.title;
          render();
          scrollTo(x, y);
        }
      } catch (error) {
        const line = place.querySelector(".state") || place.querySelector("h1");
        if (!place.querySelector(".gone")) {
          line.after(element("p", { class: "state gone", role: "status" }, "mdpnewton watch has ended; this is the last it said"));
        }
        return;
      }
    }
  }

  try {
    const before = localStorage.getItem("mdpnewton-theme");
    if (before === "light" || before === "dark") root.dataset.theme = before;
  } catch (error) { /* as above */ }
  render();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  let width = innerWidth, waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(paint, 150);
  });
  addEventListener("beforeprint", paint);
  if (live) follow();
})();

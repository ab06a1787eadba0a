// The controls of the explorable; numbers.js computes, problems.js reads and drawing.js draws.
"use strict";

(function (Explore) {
  const REACH = 4;
  // colours of mdpnewton/methods/table.py; dashes tell apart what coincides
  const LOOKS = {
    steepest: ["steepest ascent", "#2ca02c", []],
    natural: ["natural gradient", "#a5a616", []],
    expectation_maximization: ["EM", "#a0675b", [9, 5]],
    first_gauss_newton: ["first Gauss-Newton", "#d62728", []],
    second_gauss_newton: ["second Gauss-Newton", "#1f77b4", []],
    newton: ["Newton", "#e377c2", [3, 4]],
  };
  const MAPS = { "no map": [[1, 0], [0, 1]], rescale: [[0.4, 0], [0, 2.5]], mix: [[1, 0.7], [-0.4, 1]] };
  const root = document.getElementById("explore");
  const state = {
    given: Explore.kakade, w: [1, -1], shown: [0, 1], offset: 0, discount: 0.9,
    map: MAPS["no map"], same: true, hidden: new Set(), land: null,
  };

  function made(tag, attributes = {}, ...children) {
    const one = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) one.addEventListener(name.slice(2), value);
      else if (value !== false) one.setAttribute(name, value === true ? "" : value);
    }
    one.append(...children);
    return one;
  }
  const digits = (x, n = 3) => (x === 0 ? "0" : Number(x).toPrecision(n).replace("-", "−"));
  const share = (x) => (x === null ? "–" : x < 1e-9 ? "0" : digits(x, 2));

  const canvas = made("canvas", {
    tabindex: 0, role: "application",
    "aria-label": "Contours of the objective, the parameters w and the steps of the methods; arrow keys move w",
  });
  const legend = made("div", { class: "legend" });
  const told = made("p", { class: "told", "aria-live": "polite" });
  const table = made("table", { class: "explore-table" });
  const slider = (label, least, most, step, value, changed) => {
    const out = made("output", {}, digits(value));
    const input = made("input", {
      type: "range", min: least, max: most, step, value, "aria-label": label,
      oninput: () => { out.textContent = digits(Number(input.value)); changed(Number(input.value)); },
    });
    const whole = made("label", {}, made("span", {}, label), input, out);
    whole.set = (to) => { input.value = to; out.textContent = digits(to); };
    return whole;
  };
  const choice = (label, names, changed) => made("label", {}, made("span", {}, label),
    made("select", { "aria-label": label, onchange: (event) => changed(event.target.value) },
      ...names.map((name) => made("option", { value: name }, name))));

  const discount = slider("discount", 0, 0.99, 0.01, 0.9, (value) => { state.discount = value; drawAll(); });
  const offset = slider("added to every reward", -3, 10, 0.5, 0, (value) => { state.offset = value; drawAll(); });
  const entries = [0, 1, 2, 3].map((k) => made("input", {
    type: "number", step: 0.1, "aria-label": `entry ${(k >> 1) + 1}, ${(k & 1) + 1} of the map`,
    oninput: () => useMap([[0, 1], [2, 3]].map((row) => row.map((at) => Number(entries[at].value)))),
  }));
  const showMap = () => entries.forEach((one, k) => { one.value = state.map[k >> 1][k & 1]; });
  const problems = { "Kakade's two states": Explore.kakade, "three states, two features": Explore.corridor };
  const text = made("textarea", { rows: 8, spellcheck: "false", "aria-label": "your own problem as JSON" });
  const wrong = made("p", { class: "wrong", role: "alert" });
  const coordinates = made("div", { class: "coordinates" });

  function useMap(map) {
    const size = map[0][0] * map[1][1] - map[0][1] * map[1][0];
    const sound = Number.isFinite(size) && Math.abs(size) > 1e-3;
    wrong.textContent = sound ? "" : "The map must be invertible.";
    if (sound) { state.map = map; draw(); }
  }

  function use(problem) {
    state.given = problem;
    const n = problem.features[0][0].length;
    state.w = Array.from({ length: n }, (_, k) => [1, -1][k] ?? 0);
    state.shown = [0, 1];
    state.discount = problem.discount;
    discount.set(state.discount);
    text.value = JSON.stringify(problem, null, 1).replace(/\[\s+([^[\]]*?)\s+\]/g, (_, inner) => `[${inner.replace(/\s+/g, " ")}]`);
    coordinates.replaceChildren();
    if (n > 2) {
      const names = Array.from({ length: n }, (_, k) => `w${k + 1}`);
      const pick = (label, which) => {
        const whole = choice(label, names, (name) => {
          const k = names.indexOf(name);
          if (k === state.shown[1 - which]) { state.shown.reverse(); } else { state.shown[which] = k; }
          coordinates.querySelectorAll("select").forEach((one, at) => { one.value = names[state.shown[at]]; });
          drawAll();
        });
        whole.querySelector("select").value = names[state.shown[which]];
        return whole;
      };
      coordinates.append(pick("to the right", 0), pick("upwards", 1));
    }
    drawAll();
  }

  const problem = () => Explore.shifted({ ...state.given, discount: state.discount }, state.offset);
  /** The map on the coordinates that are shown; the others stay. */
  const wholeMap = () => {
    const whole = Explore.identity(state.w.length), [i, j] = state.shown;
    [[i, j], [i, j]].forEach((columns, row) => columns.forEach((column, k) => { whole[[i, j][row]][column] = state.map[row][k]; }));
    return whole;
  };

  /** The arrows at once, and the contours as soon as nothing else changes. */
  function drawAll() {
    const survey = () => { state.land = Explore.landscape(problem(), state.w, state.shown, REACH); };
    if (!state.land) survey();
    draw();
    clearTimeout(state.later);
    state.later = setTimeout(() => { survey(); draw(); }, 30);
  }

  function draw() {
    const now = problem(), [i, j] = state.shown;
    const found = Explore.analysed(now, state.w, wholeMap());
    const mapped = String(state.map) !== String(MAPS["no map"]);
    const plain = mapped && Explore.analysed(now, state.w);
    const unshifted = state.offset && Explore.analysed({ ...state.given, discount: state.discount }, state.w, wholeMap());
    const arrows = Explore.METHODS.filter((name) => !state.hidden.has(name) && found.directions[name]).map((name) => ({
      color: LOOKS[name][1], dash: LOOKS[name][2], direction: [i, j].map((k) => found.directions[name][k]),
    }));
    Explore.draw(canvas, state.land, [state.w[i], state.w[j]], arrows, [`w${i + 1}`, `w${j + 1}`], state.same);
    const rows = Explore.METHODS.map((name) => {
      const d = found.directions[name];
      const slope = d && d.reduce((sum, one, k) => sum + one * found.gradient[k], 0);
      const way = !d ? "no maximum found" : Math.abs(slope) < 1e-12 ? "stays" : slope > 0 ? "up" : "down";
      return made("tr", {}, made("td", {}, made("i", { style: `background:${LOOKS[name][1]}` }), LOOKS[name][0]),
        made("td", {}, d ? digits(Math.hypot(...d)) : "–"), made("td", { class: way === "down" ? "down" : "" }, way),
        made("td", {}, mapped ? share(Explore.apart(d, plain.directions[name])) : "–"),
        made("td", {}, state.offset ? share(Explore.apart(d, unshifted.directions[name])) : "–"));
    });
    table.replaceChildren(
      made("thead", {}, made("tr", {}, ...["step", "length", "goes", "moved by the map", "moved by the offset"].map((name) => made("th", { scope: "col" }, name)))),
      made("tbody", {}, ...rows));
    const of = (name) => `${found.spectra[name].definiteness} (${digits(found.spectra[name].values[0])} to ${digits(found.spectra[name].values.at(-1))})`;
    told.textContent = `w = (${state.w.map((one) => digits(one)).join(", ")}): objective ${digits(found.objective, 5)}. `
      + `The Hessian is ${of("hessian")}, A1 is ${of("A1")}, H2 is ${of("H2")}.`;
    root.w = state.w;
  }

  function put(event) {
    const box = canvas.getBoundingClientRect();
    const within = (x) => Math.max(-REACH, Math.min(REACH, x));
    state.w[state.shown[0]] = within(((event.clientX - box.left) / box.width * 2 - 1) * REACH);
    state.w[state.shown[1]] = within((1 - (event.clientY - box.top) / box.height * 2) * REACH);
    draw();
  }
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); put(event); });
  canvas.addEventListener("pointermove", (event) => { if (event.buttons) put(event); });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 1], ArrowDown: [1, -1] };
    if (!moves[event.key]) return;
    event.preventDefault();
    const [axis, sign] = moves[event.key], k = state.shown[axis];
    state.w[k] = Math.max(-REACH, Math.min(REACH, state.w[k] + sign * (event.shiftKey ? 0.5 : 0.1)));
    draw();
  });

  for (const name of Explore.METHODS) {
    legend.append(made("label", {}, made("input", {
      type: "checkbox", checked: true, value: name,
      onchange: (event) => { state.hidden[event.target.checked ? "delete" : "add"](name); draw(); },
    }), made("i", { style: `background:${LOOKS[name][1]}` }), LOOKS[name][0]));
  }
  const controls = made("div", { class: "controls" },
    choice("problem", [...Object.keys(problems)], (name) => use(problems[name])),
    coordinates, discount, offset,
    choice("parameters", Object.keys(MAPS), (name) => { showMap(state.map = MAPS[name]); useMap(MAPS[name]); }),
    made("div", { class: "map" }, made("span", {}, "T ="), made("div", {}, ...entries)),
    made("label", {}, made("input", {
      type: "checkbox", checked: true, onchange: (event) => { state.same = event.target.checked; draw(); },
    }), "arrows of about the same length"),
    legend);
  const own = made("details", {}, made("summary", {}, "A problem of your own"), text,
    made("button", {
      type: "button", class: "md-button",
      onclick: () => {
        try { const read = Explore.read(text.value); wrong.textContent = ""; use(read); } catch (error) { wrong.textContent = `Not shown: ${error.message}.`; }
      },
    }, "Show it"));
  root.replaceChildren(made("div", { class: "stage" }, canvas, controls), told, table, own, wrong);
  showMap();
  use(Explore.kakade);
  new ResizeObserver(draw).observe(canvas);
  new MutationObserver(draw).observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
})(globalThis.Explore);

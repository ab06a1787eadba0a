// The picture of the explorable: contours, the hatch where the Hessian is not negative definite, arrows.
"use strict";

(function (Explore) {
  const LEVELS = 14;

  /** Heights and whether H is negative definite on a grid over the two coordinates that are shown. */
  Explore.landscape = (problem, w, [i, j], reach) => {
    const heights = [], bends = [], { features } = problem;
    const work = features.length * features[0].length * w.length ** 2;
    const cells = work < 200 ? 48 : work < 1000 ? 32 : 20;
    for (let row = 0; row <= cells; row++) {
      for (let column = 0; column <= cells; column++) {
        const at = [...w];
        at[i] = -reach + (2 * reach * column) / cells;
        at[j] = -reach + (2 * reach * row) / cells;
        const found = Explore.evaluated(problem, at);
        heights.push(found.objective);
        bends.push(Explore.negative(found));
      }
    }
    return { heights, bends, reach, cells };
  };

  /** Calls `line` with the ends of the pieces of a contour, in cells. */
  function contour({ heights, cells }, level, line) {
    const height = (x, y) => heights[y * (cells + 1) + x];
    for (let y = 0; y < cells; y++) for (let x = 0; x < cells; x++) {
      const corners = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1]];
      const ends = [];
      corners.forEach(([ax, ay], k) => {
        const [bx, by] = corners[(k + 1) % 4];
        const a = height(ax, ay) - level, b = height(bx, by) - level;
        if (a < 0 === b < 0) return;
        const share = a / (a - b);
        ends.push([ax + share * (bx - ax), ay + share * (by - ay)]);
      });
      for (let k = 0; k + 1 < ends.length; k += 2) line(ends[k], ends[k + 1]);
    }
  }

  /** Draws everything; `arrows` is a list of {color, direction, dash}. */
  Explore.draw = (canvas, land, point, arrows, names, same) => {
    const side = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    canvas.width = canvas.height = Math.round(side * ratio);
    const { cells } = land;
    const ink = getComputedStyle(canvas).color, pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, side, side);
    const place = ([x, y]) => [((x / land.reach + 1) / 2) * side, ((1 - y / land.reach) / 2) * side];
    const cell = ([x, y]) => [(x / cells) * side, (1 - y / cells) * side];
    pen.strokeStyle = ink;
    pen.globalAlpha = 0.16;
    pen.lineWidth = 1;
    const size = side / cells;
    pen.beginPath();
    for (let y = 0; y < cells; y++) for (let x = 0; x < cells; x++) {
      if (land.bends[y * (cells + 1) + x]) continue;
      const [left, bottom] = cell([x, y]);
      pen.moveTo(left, bottom);
      pen.lineTo(left + size, bottom - size);
    }
    pen.stroke();
    const low = Math.min(...land.heights), high = Math.max(...land.heights);
    for (let k = 1; k < LEVELS && high > low; k++) {
      pen.globalAlpha = 0.2 + (0.5 * k) / LEVELS;
      pen.beginPath();
      contour(land, low + ((high - low) * k) / LEVELS, (a, b) => {
        pen.moveTo(...cell(a));
        pen.lineTo(...cell(b));
      });
      pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.fillStyle = ink;
    pen.font = "12px system-ui, sans-serif";
    const reach = land.reach;
    for (let tick = -reach + 1; tick < reach; tick++) {
      const [x, y] = [place([tick, 0])[0], place([0, tick])[1]];
      pen.globalAlpha = 0.6;
      pen.textAlign = "center";
      pen.fillText(String(tick).replace("-", "−"), x, side - 5);
      pen.textAlign = "left";
      if (tick > -reach + 1) pen.fillText(String(tick).replace("-", "−"), 4, y + 4);
    }
    pen.globalAlpha = 1;
    pen.textAlign = "right";
    pen.fillText(names[0], side - 6, side - 20);
    pen.textAlign = "left";
    pen.fillText(names[1], 6, 14);
    const start = place(point);
    for (const [k, { color, direction, dash }] of arrows.entries()) {
      const length = Math.hypot(...direction);
      if (!(length > 0)) continue;
      // of those that coincide the later ones are shorter, so that the heads of all are seen
      const factor = same ? ((0.55 - 0.05 * k) * reach) / length : Math.min(1, (4 * reach) / length);
      const end = place(point.map((one, axis) => one + factor * direction[axis]));
      const angle = Math.atan2(end[1] - start[1], end[0] - start[0]);
      pen.strokeStyle = pen.fillStyle = color;
      pen.lineWidth = 2.5;
      pen.setLineDash(dash);
      pen.beginPath();
      pen.moveTo(...start);
      pen.lineTo(...end);
      pen.stroke();
      pen.setLineDash([]);
      pen.beginPath();
      pen.moveTo(...end);
      for (const turn of [2.7, -2.7]) pen.lineTo(end[0] + 11 * Math.cos(angle + turn), end[1] + 11 * Math.sin(angle + turn));
      pen.fill();
    }
    pen.fillStyle = ink;
    pen.beginPath();
    pen.arc(...start, 6, 0, 2 * Math.PI);
    pen.fill();
  };
})(globalThis.Explore);

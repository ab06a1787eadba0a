// Linear algebra on arrays of arrays, for the explorable: a few parameters and a few states.
"use strict";

globalThis.Explore = {};

(function (Explore) {
  const range = (n) => Array.from({ length: n }, (_, i) => i);
  const zeros = (n, m) => range(n).map(() => new Array(m).fill(0));
  const dot = (x, y) => x.reduce((sum, one, i) => sum + one * y[i], 0);
  const times = (matrix, x) => matrix.map((row) => dot(row, x));
  const transposed = (matrix) => matrix[0].map((_, j) => matrix.map((row) => row[j]));
  const product = (x, y) => {
    const columns = transposed(y);
    return x.map((row) => columns.map((column) => dot(row, column)));
  };
  const plus = (x, y, factor = 1) => x.map((row, i) => row.map((one, j) => one + factor * y[i][j]));
  const negated = (matrix) => matrix.map((row) => row.map((one) => -one));
  const norm = (x) => Math.hypot(...x);
  const identity = (n) => range(n).map((i) => range(n).map((j) => (i === j ? 1 : 0)));

  /** The solution of A X = B by elimination with pivots; B has columns. */
  function solved(matrix, right) {
    const n = matrix.length;
    const a = matrix.map((row, i) => [...row, ...right[i]]);
    for (let k = 0; k < n; k++) {
      let top = k;
      for (let i = k + 1; i < n; i++) if (Math.abs(a[i][k]) > Math.abs(a[top][k])) top = i;
      [a[k], a[top]] = [a[top], a[k]];
      for (let i = k + 1; i < n; i++) {
        const factor = a[i][k] / a[k][k];
        if (factor) for (let j = k; j < a[i].length; j++) a[i][j] -= factor * a[k][j];
      }
    }
    for (let k = n - 1; k >= 0; k--) {
      for (let j = n; j < a[k].length; j++) {
        for (let i = k + 1; i < n; i++) a[k][j] -= a[k][i] * a[i][j];
        a[k][j] /= a[k][k];
      }
    }
    return a.map((row) => row.slice(n));
  }

  /** Eigenvalues in ascending order and eigenvectors (rows) of a symmetric matrix, by Jacobi's rotations. */
  function eigen(matrix) {
    const n = matrix.length;
    const a = matrix.map((row) => [...row]);
    const vectors = identity(n);
    for (let sweep = 0; sweep < 60; sweep++) {
      let off = 0, all = 0;
      for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
        all += a[i][j] ** 2;
        if (i !== j) off += a[i][j] ** 2;
      }
      if (off <= 1e-34 * all) break;
      for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) {
        if (!a[p][q]) continue;
        const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
        const c = 1 / Math.sqrt(t * t + 1), s = t * c;
        for (let k = 0; k < n; k++) {
          const x = a[k][p], y = a[k][q];
          a[k][p] = c * x - s * y;
          a[k][q] = s * x + c * y;
        }
        for (let k = 0; k < n; k++) {
          const x = a[p][k], y = a[q][k];
          a[p][k] = c * x - s * y;
          a[q][k] = s * x + c * y;
          const v = vectors[p][k], w = vectors[q][k];
          vectors[p][k] = c * v - s * w;
          vectors[q][k] = s * v + c * w;
        }
      }
    }
    const order = range(n).sort((i, j) => a[i][i] - a[j][j]);
    return { values: order.map((i) => a[i][i]), vectors: order.map((i) => vectors[i]) };
  }

  /** The solution of least norm of M x = g for a symmetric matrix; what cancels to round-off of `size` is zero. */
  function leastNorm(matrix, right, size = 0) {
    const { values, vectors } = eigen(matrix);
    const least = Math.max(1e-12 * Math.max(...values.map(Math.abs)), 1e-13 * size);
    const x = right.map(() => 0);
    values.forEach((value, k) => {
      if (Math.abs(value) <= least) return;
      const share = dot(vectors[k], right) / value;
      vectors[k].forEach((one, i) => { x[i] += share * one; });
    });
    return x;
  }

  const definiteness = (values, whole) => {
    const size = Math.max(1e-12 * Math.max(...values.map(Math.abs)), 1e-13 * whole);
    const least = values[0], most = values[values.length - 1];
    if (most < -size) return "negative definite";
    if (least > size) return "positive definite";
    if (most <= size && least >= -size) return "zero";
    if (most <= size) return "negative semidefinite";
    if (least >= -size) return "positive semidefinite";
    return "indefinite";
  };

  Object.assign(Explore, { range, zeros, dot, times, transposed, product, plus, negated, norm, identity });
  Object.assign(Explore, { solved, eigen, leastNorm, definiteness });
})(globalThis.Explore);

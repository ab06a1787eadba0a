// The numbers of the explorable: a finite MDP under a softmax policy, its curvature and the six directions.
// Plain functions of plain arrays; tests compare them with the library.
"use strict";

(function (scope) {
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

  /** Action probabilities pi(a|s) of the softmax of w' phi(s, a). */
  function probabilities(features, w) {
    return features.map((actions) => {
      const logits = actions.map((phi) => dot(phi, w));
      const top = Math.max(...logits);
      const weights = logits.map((one) => Math.exp(one - top));
      const sum = weights.reduce((x, y) => x + y, 0);
      return weights.map((one) => one / sum);
    });
  }

  /** phi(s, a) less its mean over the actions: grad log pi(a|s). */
  function scores(features, pi) {
    return features.map((actions, s) => {
      const mean = actions[0].map((_, k) => dot(pi[s], actions.map((phi) => phi[k])));
      return actions.map((phi) => phi.map((one, k) => one - mean[k]));
    });
  }

  /** Values, occupancies, gradient and every matrix at w. */
  function evaluated(problem, w) {
    const { transition, reward, start, discount, features } = problem;
    const states = range(reward.length), actions = range(reward[0].length), n = w.length;
    const pi = probabilities(features, w);
    const psi = scores(features, pi);
    const loop = states.map((s) => states.map((t) =>
      (s === t ? 1 : 0) - discount * actions.reduce((sum, a) => sum + pi[s][a] * transition[s][a][t], 0)));
    const value = solved(loop, states.map((s) => [dot(pi[s], reward[s])])).map((row) => row[0]);
    const visits = solved(transposed(loop), start.map((one) => [one])).map((row) => row[0]);
    const q = states.map((s) => actions.map((a) => reward[s][a] + discount * dot(transition[s][a], value)));
    const slopes = solved(loop, states.map((s) => range(n).map((k) =>
      actions.reduce((sum, a) => sum + pi[s][a] * q[s][a] * psi[s][a][k], 0))));
    const gradient = new Array(n).fill(0);
    const [fisher, A1, V1, H12] = range(4).map(() => zeros(n, n));
    let size = 0; // of the matrices, if nothing in them cancelled
    for (const s of states) for (const a of actions) {
      const p = visits[s] * pi[s][a], x = psi[s][a];
      const ahead = range(n).map((k) => discount * states.reduce((sum, t) => sum + transition[s][a][t] * slopes[t][k], 0));
      size += p * (Math.abs(q[s][a]) + Math.abs(value[s])) * dot(x, x);
      for (let i = 0; i < n; i++) {
        gradient[i] += p * q[s][a] * x[i];
        for (let j = 0; j < n; j++) {
          fisher[i][j] += p * x[i] * x[j];
          A1[i][j] += p * (q[s][a] - value[s]) * x[i] * x[j];
          V1[i][j] += p * value[s] * x[i] * x[j];
          H12[i][j] += p * x[i] * ahead[j];
        }
      }
    }
    const weights = states.map((s) => actions.map((a) => visits[s] * pi[s][a] * q[s][a]));
    return {
      objective: dot(start, value), value, visits, gradient, weights, size,
      fisher, A1, H2: negated(V1), hessian: plus(plus(A1, H12), transposed(H12)),
    };
  }

  /** Where the EM bound has its maximum, by Newton's method from w; null where it has none. */
  function maximum(features, weights, w) {
    const n = w.length;
    const bound = (v) => {
      const pi = probabilities(features, v), psi = scores(features, pi);
      const gradient = new Array(n).fill(0), bend = zeros(n, n);
      let height = 0;
      pi.forEach((row, s) => {
        const mass = weights[s].reduce((x, y) => x + y, 0);
        row.forEach((one, a) => {
          if (weights[s][a]) height += weights[s][a] * Math.log(one);
          for (let i = 0; i < n; i++) {
            gradient[i] += weights[s][a] * psi[s][a][i];
            for (let j = 0; j < n; j++) bend[i][j] += mass * one * psi[s][a][i] * psi[s][a][j];
          }
        });
      });
      return { height, gradient, bend };
    };
    let v = [...w], here = bound(v);
    const first = norm(here.gradient);
    for (let step = 0; step < 100 && first > 0; step++) {
      if (norm(here.gradient) <= 1e-14 * first) break;
      const ahead = leastNorm(here.bend, here.gradient);
      if (!(dot(ahead, here.gradient) > 0)) return norm(here.gradient) <= 1e-11 * first ? v : null;
      let size = 1, next = null, moved = null;
      for (; size > 1e-12; size /= 2) {
        moved = v.map((one, i) => one + size * ahead[i]);
        next = bound(moved);
        // close to the maximum the bound is flat to round-off, and its gradient is not
        if (next.height > here.height || norm(next.gradient) < norm(here.gradient)) break;
      }
      if (size <= 1e-12 || norm(moved) > 1e3) break;
      [v, here] = [moved, next];
    }
    return norm(here.gradient) <= 1e-11 * (first || 1) ? v : null;
  }

  /** Whether the Hessian is negative definite: where it is, minus it has a Cholesky factor. */
  function negative({ hessian, size }) {
    const n = hessian.length, factor = zeros(n, n);
    for (let i = 0; i < n; i++) for (let j = 0; j <= i; j++) {
      let rest = -hessian[i][j];
      for (let k = 0; k < j; k++) rest -= factor[i][k] * factor[j][k];
      if (i === j && !(rest > 1e-13 * size)) return false;
      factor[i][j] = i === j ? Math.sqrt(rest) : rest / factor[j][j];
    }
    return true;
  }

  const METHODS = ["steepest", "natural", "expectation_maximization", "first_gauss_newton", "second_gauss_newton", "newton"];

  /** The problem with a number added to every reward. */
  const shifted = (problem, offset) => ({ ...problem, reward: problem.reward.map((row) => row.map((one) => one + offset)) });

  /**
   * Everything at w, as a search sees it that has parameters v with w = T v: every direction is computed in v
   * and mapped back to w.
   */
  function analysed(problem, w, map) {
    const at = evaluated(problem, w);
    const T = map || identity(w.length), turned = transposed(T);
    const seen = (matrix) => product(product(turned, matrix), T);
    const gradient = times(turned, at.gradient);
    const v = solved(T, w.map((one) => [one])).map((row) => row[0]);
    const features = problem.features.map((actions) => actions.map((phi) => times(turned, phi)));
    const size = at.size * Math.max(...T.map((row) => dot(row, row)));
    const top = maximum(features, at.weights, v);
    const inner = {
      steepest: gradient,
      natural: leastNorm(seen(at.fisher), gradient),
      expectation_maximization: top && top.map((one, i) => one - v[i]),
      first_gauss_newton: leastNorm(negated(seen(at.A1)), gradient, size),
      second_gauss_newton: leastNorm(negated(seen(at.H2)), gradient, size),
      newton: leastNorm(negated(seen(at.hessian)), gradient, size),
    };
    const directions = {};
    for (const method of METHODS) directions[method] = inner[method] && times(T, inner[method]);
    const spectra = {};
    for (const name of ["hessian", "A1", "H2", "fisher"]) {
      const { values } = eigen(at[name]);
      spectra[name] = { values, definiteness: definiteness(values, name === "fisher" ? 0 : at.size) };
    }
    return { ...at, directions, spectra };
  }

  /** How far two directions are apart, relative to the longer one; null where one is missing. */
  function apart(x, y) {
    if (!x || !y) return null;
    const size = Math.max(norm(x), norm(y));
    return size > 0 ? norm(x.map((one, i) => one - y[i])) / size : 0;
  }

  /** Features of a softmax with a logit for every action but the last in every state. */
  function table(states, actions) {
    return range(states).map((s) => range(actions).map((a) =>
      range(states * (actions - 1)).map((k) => (a < actions - 1 && k === s * (actions - 1) + a ? 1 : 0))));
  }

  /** A problem from what somebody typed; an error says in one line what is wrong. */
  function read(text) {
    let given;
    try { given = JSON.parse(text); } catch (error) { throw new Error(`this is not JSON: ${error.message}`); }
    const number = (one) => typeof one === "number" && Number.isFinite(one);
    const shape = (name, value, ...sizes) => {
      const fits = (part, [size, ...rest]) => size === undefined ? number(part)
        : Array.isArray(part) && part.length === size && part.every((one) => fits(one, rest));
      if (!fits(value, sizes)) throw new Error(`"${name}" must be numbers of shape (${sizes.join(", ")})`);
    };
    const { transition, reward, start, discount = 0.9 } = given || {};
    if (!Array.isArray(reward) || !Array.isArray(reward[0])) throw new Error('"reward" must be numbers of shape (states, actions)');
    const S = reward.length, A = reward[0].length;
    if (S > 12 || A > 6 || A < 2) throw new Error("at most 12 states and 2 to 6 actions can be shown here");
    shape("reward", reward, S, A);
    shape("transition", transition, S, A, S);
    shape("start", start, S);
    if (!number(discount) || discount < 0 || discount >= 1) throw new Error('"discount" must be in [0, 1)');
    const sure = (row) => row.every((one) => one >= 0) && Math.abs(row.reduce((x, y) => x + y, 0) - 1) < 1e-9;
    if (!sure(start)) throw new Error('"start" must be probabilities that sum to one');
    transition.forEach((rows, s) => rows.forEach((row, a) => {
      if (!sure(row)) throw new Error(`"transition" of state ${s} and action ${a} must be probabilities that sum to one`);
    }));
    let features = given.features;
    if (features === undefined) features = table(S, A);
    const n = features?.[0]?.[0]?.length;
    if (!(n >= 2 && n <= 12)) throw new Error('"features" must have 2 to 12 numbers for every state and action');
    shape("features", features, S, A, n);
    return { transition, reward, start, discount, features };
  }

  const kakade = {
    start: [0.8, 0.2],
    discount: 0.9,
    reward: [[1, 0], [2, 0]],
    transition: [[[1, 0], [0, 1]], [[0, 1], [1, 0]]],
    features: [[[1, 0], [0, 0]], [[0, 1], [0, 0]]],
  };
  const corridor = {
    start: [0.6, 0.2, 0.2],
    discount: 0.9,
    reward: [[0.2, 0], [0, 1], [2, 0]],
    transition: [[[0.9, 0.1, 0], [0.1, 0.8, 0.1]], [[0.7, 0.3, 0], [0, 0.2, 0.8]], [[0, 0.1, 0.9], [0.6, 0.4, 0]]],
    features: [[[1, 0], [0, 0]], [[1, 0.5], [0, 0]], [[-0.5, 1], [0, 0]]],
  };

  scope.Explore = { METHODS, analysed, evaluated, negative, apart, shifted, read, identity, kakade, corridor };
  if (typeof module !== "undefined") module.exports = scope.Explore;
})(globalThis);

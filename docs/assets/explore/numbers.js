// The numbers of the explorable: a finite MDP under a softmax policy, its curvature and the six directions.
// Tests compare them with the library.
"use strict";

(function (Explore) {
  const { range, zeros, dot, times, transposed, product, plus, negated, norm, identity } = Explore;
  const { solved, eigen, leastNorm, definiteness } = Explore;

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

  /** Where the EM bound has its maximum, by Newton's method from w; null where none is found. */
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
    const top = eigen(here.bend).values;
    const bent = top[0] >= -1e-12 * Math.max(...top.map(Math.abs));
    return bent && norm(here.gradient) <= 1e-11 * (first || 1) ? v : null;
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

  Object.assign(Explore, { METHODS, analysed, evaluated, negative, apart, shifted });
})(globalThis.Explore);

// The problems of the explorable: two of its own, and what somebody types.
"use strict";

(function (Explore) {
  const { range } = Explore;

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
    const own = given.features !== undefined;
    if (!own && S * (A - 1) > 12) throw new Error(`without "features" there are ${S * (A - 1)} parameters, and at most 12 can be shown`);
    const features = own ? given.features : table(S, A);
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

  Object.assign(Explore, { read, kakade, corridor });
})(globalThis.Explore);

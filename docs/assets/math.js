// Formulas are set by KaTeX, which stands beside this file: nothing is fetched from elsewhere.
document.addEventListener("DOMContentLoaded", () => {
  const macros = {};
  for (const place of document.querySelectorAll(".arithmatex")) {
    const source = place.textContent.trim();
    katex.render(source.slice(2, -2), place, {
      displayMode: source.startsWith("\\["),
      throwOnError: false,
      macros,
    });
  }
});

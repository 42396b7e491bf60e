// Charts: each figure has its points in an attribute, which a refresh replaces; the plot stays.
(() => {
  "use strict";
  const made = new Map();

  const colour = (figure, selector) => {
    const swatch = figure.querySelector(selector);
    return swatch ? getComputedStyle(swatch).backgroundColor : "gray";
  };

  const short = (value) => {
    if (value >= 1e6) return `${+(value / 1e6).toFixed(1)} M`;
    if (value >= 1e4) return `${+(value / 1e3).toFixed(1)} k`;
    return (+value.toFixed(2)).toLocaleString("en");
  };

  function build(figure) {
    const plot = figure.querySelector(".plot");
    const data = JSON.parse(figure.dataset.points);
    const unit = figure.dataset.unit;
    const style = getComputedStyle(figure);
    const axis = { stroke: style.color, grid: { stroke: style.borderTopColor, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const names = [...figure.querySelectorAll(".series")];
    const series = names.map((name, index) => ({
      label: name.textContent,
      stroke: colour(figure, `.s${index + 1} i`),
      width: 1.75,
      points: { show: false },
      fill: index === 0 ? colour(figure, ".s1 i").replace("rgb(", "rgba(").replace(")", ", 0.12)") : undefined,
    }));
    const options = {
      width: plot.clientWidth, height: plot.clientHeight, padding: [6, 26, 0, 0],
      legend: { show: false }, cursor: { drag: { setScale: false }, y: false },
      scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
      axes: [{ ...axis, space: 70, size: 26, values: "{HH}:{mm}:{ss}" }, { ...axis, size: 52, space: 32, values: (_, ticks) => ticks.map((tick) => short(tick) + unit) }],
      series: [{}, ...series],
      hooks: {
        setCursor: [(chart) => {
          const at = chart.cursor.idx;
          plot.title = at == null ? "" : chart.series.slice(1).map((one, index) => `${one.label}: ${short(chart.data[index + 1][at] ?? 0)}${unit}`).join("\n");
        }],
      },
    };
    plot.replaceChildren();
    made.set(figure, new uPlot(options, data, plot));
    sizes.observe(plot);
  }

  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const chart = made.get(target.parentElement);
      if (chart && target.clientWidth) chart.setSize({ width: target.clientWidth, height: target.clientHeight });
    }
  });

  function draw() {
    for (const [figure, chart] of made) {
      if (!figure.isConnected) {
        chart.destroy();
        made.delete(figure);
      }
    }
    for (const figure of document.querySelectorAll("figure.chart")) {
      const chart = made.get(figure);
      if (!chart) build(figure);
      else if (chart.from !== figure.dataset.points) chart.setData(JSON.parse(figure.dataset.points));
      made.get(figure).from = figure.dataset.points;
    }
  }

  function again() {
    for (const chart of made.values()) chart.destroy();
    made.clear();
    draw();
  }

  window.mantaCharts = { draw, again };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
})();

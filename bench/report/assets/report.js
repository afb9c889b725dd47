"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  // A run that was interrupted at once has lists that are not there.
  for (const list of ["intervals", "stages", "classes", "events", "inversions"]) data[list] ||= [];
  const secs = data.intervals;
  const root = document.documentElement;
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const palette = ["--s1", "--s2", "--s3", "--s4", "--s5", "--s6", "--s7", "--s8"];
  const alpha = (color, a) => {
    const n = parseInt(color.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${a})`;
  };

  // Writing figures -------------------------------------------------------

  const count = (v) => v == null ? "–" : Math.abs(v) >= 10000 ? (v / 1000).toFixed(v >= 100000 ? 0 : 1) + "k" : String(Math.round(v * 10) / 10);
  const share = (v) => v == null ? "–" : (v * 100).toFixed(v > 0.999 && v < 1 ? 2 : v === 1 || v === 0 ? 0 : 1) + "%";
  const time = (v) => {
    if (v == null) return "–";
    if (v === 0) return "0";
    if (v < 0.001) return Math.round(v * 1e6) + " µs";
    if (v < 1) return (v * 1000).toFixed(v < 0.01 ? 1 : 0) + " ms";
    return (v < 10 ? v.toFixed(1) : v.toFixed(0)).replace(/\.0$/, "") + " s";
  };

  // Stages and events behind every chart over time -------------------------

  const backdrop = (names) => ({
    hooks: {
      drawClear: [(u) => {
        const { ctx } = u, { left, top, width, height } = u.bbox, px = devicePixelRatio;
        ctx.save();
        ctx.beginPath();
        ctx.rect(left, top, width, height);
        ctx.clip();
        data.stages.forEach((s, i) => {
          const a = u.valToPos(s.start, "x", true), b = u.valToPos(s.start + s.seconds, "x", true);
          if (i % 2 === 0) {
            ctx.fillStyle = css("--band");
            ctx.fillRect(a, top, b - a, height);
          }
          if (names) {
            ctx.font = `${11 * px}px system-ui, sans-serif`;
            ctx.fillStyle = css("--faint");
            ctx.textBaseline = "top";
            if (ctx.measureText(s.name).width < b - a - 8 * px) ctx.fillText(s.name, Math.max(a, left) + 5 * px, top + 5 * px);
          }
        });
        data.events.forEach((e, k) => {
          const a = u.valToPos(e.at, "x", true), b = e.till ? u.valToPos(e.till, "x", true) : a;
          ctx.fillStyle = css("--event");
          ctx.fillRect(a, top, b - a, height);
          ctx.strokeStyle = css("--event-line");
          ctx.lineWidth = px;
          ctx.setLineDash([4 * px, 3 * px]);
          ctx.beginPath();
          for (const x of e.till ? [a, b] : [a]) {
            ctx.moveTo(x, top);
            ctx.lineTo(x, top + height);
          }
          ctx.stroke();
          ctx.setLineDash([]);
          if (names === "all") {
            ctx.font = `${11 * px}px system-ui, sans-serif`;
            ctx.fillStyle = css("--bad");
            ctx.textBaseline = "top";
            const w = ctx.measureText(e.what).width;
            const x = Math.max(left + 5 * px, Math.min(a + 5 * px, left + width - w - 5 * px));
            ctx.fillText(e.what, x, top + (20 + 14 * (k % 3)) * px);
          }
        });
        ctx.restore();
      }],
    },
  });

  // Charts ------------------------------------------------------------------

  const charts = [];
  const sync = uPlot.sync("time");

  const axis = (extra) => ({
    stroke: css("--soft"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
    grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 4 }, ...extra,
  });
  const xTime = () => axis({ values: (u, vs) => vs.map((v) => v + " s"), grid: { show: false }, space: 60, size: 30 });

  const chart = (id, height, build) => {
    const el = document.getElementById(id);
    if (!el) return;
    const make = () => {
      el.replaceChildren();
      const { opts, values } = build();
      const u = new uPlot({
        width: Math.max(el.clientWidth, 240), height, padding: [10, 12, 0, 4],
        legend: { live: true }, ...opts,
      }, values, el);
      const c = u.root.querySelector("canvas");
      c.setAttribute("role", "img");
      c.setAttribute("aria-label", el.dataset.label || "");
      return u;
    };
    const entry = { el, make, u: make() };
    charts.push(entry);
    new ResizeObserver(() => entry.u.setSize({ width: Math.max(el.clientWidth, 240), height })).observe(el);
  };

  const overTime = (series, y, extra = {}) => ({
    cursor: { sync: { key: sync.key }, points: { size: 7 }, drag: { x: true, y: false } },
    scales: { x: { time: false, range: (u, lo, hi) => [lo, hi] }, y: y.scale || { range: (u, lo, hi) => [0, Math.max(hi, y.least || 1) * 1.06] } },
    axes: [xTime(), axis({ values: (u, vs) => vs.map(y.write), size: 58 })],
    series: [{ label: "second", value: (u, v) => v == null ? "–" : v + " s" }, ...series],
    plugins: [backdrop(y.names || "stages")], ...extra,
  });
  // Ticks of a logarithmic axis: where it spans many decades, only their
  // beginnings have room.
  const decades = (lo, hi) => {
    const keep = Math.log10(hi / lo) > 2.5 ? [1] : Math.log10(hi / lo) > 1.2 ? [1, 3] : [1, 2, 5];
    return (u, vs) => vs.map((v) => keep.some((k) => Math.abs(v / 10 ** Math.floor(Math.log10(v) + 1e-9) - k) < 1e-6) ? v : null);
  };
  const lineOf = (label, color, write, extra = {}) => ({
    label, stroke: css(color), width: 2, points: { show: false }, value: (u, v) => write(v), spanGaps: false, ...extra,
  });

  const t = secs.map((s) => s.t);
  const classes = data.classes.map((c) => c.name);

  // Far above all that happened, the origin's capacity would only flatten the rest.
  const capacity = data.origin.capacity <= 1.6 * Math.max(...secs.map((s) => s.offered)) ? data.origin.capacity : 0;

  chart("flow", 300, () => ({
    opts: overTime([
      lineOf("offered", "--s7", count, { dash: [6, 4] }),
      lineOf("admitted", "--s1", count, { fill: alpha(css("--s1"), 0.12) }),
      lineOf("done in time", "--s3", count),
      ...(capacity ? [lineOf("origin can do", "--s6", count, { width: 1, dash: [2, 3] })] : []),
    ], { write: count, names: "all" }),
    values: [
      t, secs.map((s) => s.offered), secs.map((s) => s.endings.admitted + s.endings.replayed), secs.map((s) => s.in_time),
      ...(capacity ? [secs.map(() => capacity)] : []),
    ],
  }));

  chart("age", 220, () => ({
    opts: overTime([lineOf("oldest work", "--s2", time, { fill: alpha(css("--s2"), 0.14) })], { write: time, least: 0.5 }),
    values: [t, secs.map((s) => s.queue_age)],
  }));

  // Seconds in which a class was refused more often than a less important one.
  const inverted = (u) => {
    const { ctx } = u, px = devicePixelRatio;
    ctx.save();
    ctx.fillStyle = css("--bad");
    for (const i of data.inversions) {
      const a = u.valToPos(i.second, "x", true), b = u.valToPos(i.second + 1, "x", true);
      ctx.fillRect(a, u.bbox.top + u.bbox.height - 5 * px, Math.max(b - a - px, 2 * px), 5 * px);
    }
    ctx.restore();
  };

  chart("shares", 220, () => ({
    opts: overTime(classes.map((c, i) => lineOf(c, palette[i % 8], share, { width: 2 + (classes.length - i) * 0.3, dash: i ? [8 - i, i + 1] : undefined })),
      { write: (v) => v > 1 ? "" : Math.round(v * 100) + "%", scale: { range: [0, 1.15] } }, { hooks: { draw: [inverted] } }),
    values: [t, ...classes.map((_, i) => secs.map((s) => s.classes[i].admitted_share ?? null))],
  }));

  // What became of requests, as layers on top of each other.
  chart("reasons", 240, () => {
    const totals = {};
    for (const s of secs) for (const [k, n] of Object.entries(s.reasons || {})) totals[k] = (totals[k] || 0) + n;
    const words = Object.keys(totals).sort((a, b) => totals[b] - totals[a]).slice(0, 6);
    const layers = [["admitted", "--s1", (s) => s.endings.admitted]];
    if (secs.some((s) => s.endings.replayed)) layers.push(["replayed", "--s8", (s) => s.endings.replayed]);
    const hues = ["--s2", "--s4", "--s5", "--s6", "--s3", "--s7"];
    words.forEach((w, i) => layers.push([w, hues[i], (s) => (s.reasons || {})[w] || 0]));
    const sum = secs.map(() => 0);
    const raw = layers.map((l) => secs.map(l[2]));
    const tops = raw.map((r) => r.map((v, i) => (sum[i] += v)));
    // The topmost layer is drawn first, so that each covers what is below.
    const order = layers.map((_, i) => i).reverse();
    return {
      opts: overTime(order.map((i) => ({
        label: layers[i][0], stroke: css(layers[i][1]), width: 1, points: { show: false },
        fill: css("--card"), value: (u, v, si, di) => di == null ? "–" : count(raw[i][di]),
      })).map((s, k) => ({ ...s, fill: alpha(css(layers[order[k]][1]), 0.55) })), { write: count },
      { bands: order.slice(0, -1).map((_, k) => ({ series: [k + 1, k + 2] })) }),
      values: [t, ...order.map((i) => tops[i])],
    };
  });

  const held = (key) => secs.map((s) => s.held ? s.held[key] : null);
  const inMiB = (key) => held(key).map((v) => v == null ? null : v / 1048576);
  const mib = (v) => v == null ? "–" : v.toFixed(v < 10 && v % 1 ? 1 : 0) + " MiB";
  chart("memory", 220, () => ({
    opts: overTime([lineOf("resident", "--s5", mib, { spanGaps: true }), lineOf("heap", "--s4", mib, { spanGaps: true, fill: alpha(css("--s4"), 0.12) })], { write: mib }),
    values: [t, inMiB("memory"), inMiB("heap")],
  }));
  chart("held", 220, () => ({
    opts: overTime([lineOf("goroutines", "--s1", count, { spanGaps: true }), lineOf("open files", "--s2", count, { spanGaps: true, dash: [6, 3] })], { write: count }),
    values: [t, held("goroutines"), held("descriptors")],
  }));

  // Heat map of response times: one column a second, eight rows a decade.
  chart("heat", 260, () => {
    const bounds = data.heat_bounds;
    let lo = bounds.length, hi = 0, most = 1;
    for (const s of secs) s.heat.forEach((n, i) => { if (n) { lo = Math.min(lo, i); hi = Math.max(hi, i); most = Math.max(most, n); } });
    if (lo > hi) [lo, hi] = [1, 16];
    const lower = (i) => i === 0 ? bounds[1] / 1.334 : bounds[i];
    const bottom = lower(Math.max(lo - 1, 0)), top = lower(Math.min(hi + 2, bounds.length - 1));
    return {
      opts: {
        ...overTime([{ label: "slowest", stroke: "transparent", points: { show: false }, value: (u, v, si, di) => di == null ? "–" : time(Math.max(...secs[di].classes.map((c) => c.max))) }],
          { write: time, scale: { distr: 3, log: 10, range: [bottom, top] } }),
        axes: [xTime(), axis({ values: (u, vs) => vs.map((v) => v == null ? null : time(v)), size: 58, filter: decades(bottom, top) })],
        hooks: {
          draw: [(u) => {
            const { ctx } = u, b = u.bbox;
            ctx.save();
            ctx.beginPath();
            ctx.rect(b.left, b.top, b.width, b.height);
            ctx.clip();
            const ink = css("--heat-0");
            for (const s of secs) {
              const x0 = u.valToPos(s.t, "x", true), x1 = u.valToPos(s.t + 1, "x", true);
              s.heat.forEach((n, i) => {
                if (!n) return;
                const y0 = u.valToPos(lower(i), "y", true), y1 = u.valToPos(i + 1 < bounds.length ? bounds[i + 1] : lower(i) * 1.334, "y", true);
                ctx.fillStyle = `rgba(${ink}, ${0.12 + 0.88 * Math.log1p(n) / Math.log1p(most)})`;
                ctx.fillRect(Math.floor(x0), Math.floor(y1), Math.ceil(x1) - Math.floor(x0), Math.ceil(y0) - Math.floor(y1));
              });
            }
            ctx.restore();
          }],
        },
      },
      values: [t, secs.map(() => null)],
    };
  });

  // Percentile spectrum: every further nine takes as much room as the last.
  chart("spectrum", 260, () => {
    const x = [...new Set(data.classes.concat(data.total).flatMap((c) => (c.response.spectrum || []).concat(c.refusal.spectrum || []).map((p) => p[0])))].sort((a, b) => a - b);
    const at = (l) => { const m = new Map(l.spectrum || []); return x.map((p) => m.has(p) ? m.get(p) : null); };
    const nines = x.map((p) => -Math.log10(1 - p));
    const lines = data.classes.filter((c) => c.response.count).map((c) => [c.name, palette[classes.indexOf(c.name) % 8], c.response, undefined]);
    if (data.total.refusal.count) lines.push(["refused", "--s7", data.total.refusal, [3, 3]]);
    if (data.total.replay.count) lines.push(["replayed", "--s8", data.total.replay, [6, 3]]);
    let lo = Infinity, hi = 0;
    for (const l of lines) for (const p of l[2].spectrum || []) { lo = Math.min(lo, p[1]); hi = Math.max(hi, p[1]); }
    if (lo > hi) [lo, hi] = [0.001, 1];
    const label = (n) => n === 0 ? "0" : n < 1 ? Math.round((1 - 10 ** -n) * 100) + "%" : (100 - 100 * 10 ** -n).toFixed(Math.max(0, Math.round(n) - 2)) + "%";
    return {
      opts: {
        cursor: { drag: { x: false, y: false }, points: { size: 7 } },
        scales: { x: { time: false, range: (u, a, b) => [0, Math.max(b, 2)] }, y: { distr: 3, log: 10, range: [lo / 1.5, hi * 1.5] } },
        axes: [
          axis({ size: 30, splits: (u) => [0, 0.30103, 1, 2, 3, 4, 5].filter((v) => v <= u.scales.x.max + 1e-9), values: (u, vs) => vs.map(label) }),
          axis({ values: (u, vs) => vs.map((v) => v == null ? null : time(v)), size: 62, filter: decades(lo, hi) }),
        ],
        series: [{ label: "share of requests", value: (u, v) => v == null ? "–" : (100 - 100 * 10 ** -v).toFixed(v >= 3 ? 3 : v >= 2 ? 2 : 1) + "%" }, ...lines.map((l) => lineOf(l[0], l[1], time, { dash: l[3], points: { show: true, size: 4, fill: css(l[1]) } }))],
      },
      values: [nines, ...lines.map((l) => at(l[2]))],
    };
  });

  // Theme ---------------------------------------------------------------------

  const button = document.querySelector(".theme");
  const apply = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", "Switch to " + (theme === "dark" ? "light" : "dark") + " colours");
    for (const c of charts) { c.u.destroy(); c.u = c.make(); }
  };
  const wish = matchMedia("(prefers-color-scheme: dark)");
  wish.addEventListener("change", () => apply(wish.matches ? "dark" : "light"));
  button.addEventListener("click", () => apply(root.dataset.theme === "dark" ? "light" : "dark"));
  button.hidden = false;
  apply(wish.matches ? "dark" : "light");
})();

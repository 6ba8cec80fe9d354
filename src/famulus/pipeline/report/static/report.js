// Unpacks Plotly, and draws each plot in the colours of the reader's theme. Plotly lies in the page compressed, for a
// third of its size. A browser that cannot unpack it shows the tables instead.
"use strict";
(() => {
  const places = [...document.querySelectorAll(".plot")];
  // What fits on paper of either usual size, within the margins that the style sheet sets.
  const paper_px = 660;
  let printing = false;
  const paper = matchMedia("print"), dark = matchMedia("(prefers-color-scheme: dark)");
  const give_up = () => document.querySelectorAll("details").forEach((each) => { each.open = true; });

  const named = (style, name) => style.getPropertyValue("--" + name).trim();

  // "$c0" becomes what the style sheet has under --c0.
  const painted = (value, style) => {
    if (typeof value === "string") return /^\$[a-z]+[0-9]?$/.test(value) ? named(style, value.slice(1)) : value;
    if (Array.isArray(value)) return value.map((each) => painted(each, style));
    if (!value || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, inside]) => [key, painted(inside, style)]));
  };

  const draw = (place) => {
    const spec = place.spec, style = getComputedStyle(document.documentElement);
    const narrow = !printing && place.clientWidth < 480;
    const [ink, soft, line, ground] = ["ink", "soft", "line", "paper"].map((name) => named(style, name));
    const clear = "rgba(0,0,0,0)", layout = painted(spec.layout, style), traces = painted(spec.traces, style);
    const lines = { gridcolor: line, linecolor: line, zerolinecolor: line };
    const plain = { ...lines, color: soft, automargin: true, fixedrange: true };
    if (narrow) traces.forEach((trace) => { trace.showscale = false; });
    // Names take several lines on a narrow screen; the plot itself shall not shrink for them.
    const room = narrow && traces.length > 3 ? 20 * Math.ceil(traces.length / 3) : 0;
    Plotly.react(place, traces, {
      ...layout,
      width: printing ? paper_px : undefined,
      height: spec.height + room,
      paper_bgcolor: clear,
      plot_bgcolor: clear,
      font: { color: ink, size: 12, family: "system-ui, -apple-system, Segoe UI, Roboto, sans-serif" },
      margin: { l: narrow ? 8 : 12, r: narrow ? 4 : 12, t: 8, b: 30 },
      xaxis: { ...plain, ...layout.xaxis },
      yaxis: { ...plain, ...layout.yaxis },
      showlegend: layout.showlegend ?? traces.length > 1,
      hovermode: "closest",
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 }, bgcolor: clear },
      hoverlabel: { bgcolor: ground, bordercolor: line, font: { color: ink } },
    }, { displayModeBar: false, responsive: true });
  };

  const draw_all = () => places.forEach(draw);

  const start = async () => {
    const packed = document.getElementById("plotly").textContent.trim();
    const bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    places.forEach((place) => {
      place.spec = JSON.parse(place.firstElementChild.textContent);
      place.replaceChildren();
    });
    draw_all();
    dark.addEventListener("change", draw_all);
    const print = (now) => { printing = now; draw_all(); };
    paper.addEventListener("change", () => print(paper.matches));
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));
    document.documentElement.dataset.drawn = "yes";
  };

  if (places.length) start().catch(give_up);
})();

// The stream of events: keeps the latest status and a minute of each service, and notices when the broker is gone.

const SILENCE_MS = 2500;
const AGAIN_MS = 1000;
// Minutes are fetched as they pass.
const MINUTES_MS = 60000;
const SERVICE_POINTS = 120;
const BROKER_POINTS = 900;

export class Live {
  constructor(onChange) {
    this.status = null;
    this.lost = false;
    this.heardAt = performance.now();
    this.points = [];          // of the broker: [at_ms, rate, failed, backlog, busy, p50, p99]
    this.minutes = [];         // likewise, one a minute
    this.services = new Map(); // by name, likewise
    this.onChange = onChange;
    this.last = null;
    this.open();
    this.preload();
    setInterval(() => this.watch(), 250);
    // A browser has only a few connections to one place: pages that nobody looks at leave theirs to others.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.resume()));
    window.addEventListener("pagehide", () => this.pause());
    window.addEventListener("pageshow", () => this.resume());
  }

  pause() {
    this.source?.close();
    this.source = null;
  }

  resume() {
    if (this.source) return;
    this.heardAt = performance.now();
    this.open();
    this.preload();
  }

  open() {
    this.source = new EventSource("/api/v1/events");
    this.source.addEventListener("status", (event) => this.take(JSON.parse(event.data)));
    const source = this.source;
    source.onerror = () => {
      // A browser comes back by itself after a loss, but not after a refusal.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.source === source && this.open(), AGAIN_MS);
    };
  }

  // The past that the herald remembers; what came meanwhile stays behind it.
  async preload() {
    try {
      const past = await (await fetch("/api/v1/history")).json();
      const join = (old, fresh) => [...old.filter((point) => !fresh.length || point[0] < fresh[0][0]), ...fresh];
      this.points = join(past.seconds, this.points);
      this.minutes = past.minutes;
      this.preloaded = performance.now();
      for (const [name, points] of Object.entries(past.services)) this.services.set(name, join(points, this.services.get(name) ?? []));
      this.onChange();
    } catch { /* the events will fill it */ }
  }

  take(status) {
    const back = this.lost;
    this.heardAt = performance.now();
    this.lost = false;
    this.status = status;
    const here = status.brokers[0];
    const perSecond = this.between(status);
    this.add(this.points, [status.at_ms, ...perSecond(null), status.tasks.backlog, here.busy, status.tasks.p50_now_ms, status.tasks.p99_now_ms], BROKER_POINTS);
    for (const service of status.services) {
      if (!this.services.has(service.name)) this.services.set(service.name, []);
      this.add(this.services.get(service.name), [status.at_ms, ...perSecond(service.name), service.backlog, service.busy, service.p50_now_ms, service.p99_now_ms], SERVICE_POINTS);
    }
    for (const name of this.services.keys()) if (this.services.size > 1000) this.services.delete(name);
    if (back || performance.now() - (this.preloaded ?? 0) > MINUTES_MS) { this.preloaded = performance.now(); this.preload(); }
    this.onChange();
  }

  // Rates since the event before, of the broker (null) or of a service; nothing if there is none to compare with.
  between(status) {
    const ends = (each) => [each.ok + each.error + each.rejected + each.unknown, each.error + each.rejected + each.unknown];
    const now = new Map([[null, ends(status.tasks)], ...status.services.map((each) => [each.name, ends(each)])]);
    const before = this.last;
    this.last = { at_ms: status.at_ms, ends: now };
    return (name) => {
      const was = before?.ends.get(name), is = now.get(name);
      const seconds = before ? (status.at_ms - before.at_ms) / 1000 : 0;
      if (!was || seconds <= 0.2 || is[0] < was[0]) return [null, null];
      return [(is[0] - was[0]) / seconds, (is[1] - was[1]) / seconds];
    };
  }

  add(points, point, most) {
    if (point[1] === null) return; // the first event of all has nothing to compare with
    points.push(point);
    if (points.length > most) points.splice(0, points.length - most);
  }

  watch() {
    const silent = Boolean(this.source) && performance.now() - this.heardAt > SILENCE_MS;
    if (silent !== this.lost) { this.lost = silent; this.onChange(); }
  }
}

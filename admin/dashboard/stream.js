// The page's copy of the gateway's state, kept up to date over one stream of
// server-sent events: the whole state first, then a tick a second.

const kept = 300; // points of history
const keptTail = 1000; // decisions

// Where nothing was said in a second: nothing happened, so counts are zero,
// but a quantile of nothing, or another part's reading, is unknown.
const counted = /^(received|in_flight|admit|replay|refuse|class\/.*|refuse\/.*|shadow\/.*|failure\/.*|candidate\/.*)$/;

export class Store {
  constructor(onChange) {
    this.onChange = onChange;
    this.connection = 'connecting'; // connecting, live, polling, lost or hidden
    this.lostAt = null;
    this.clear();
    document.addEventListener('visibilitychange', () => this.resume());
    addEventListener('pagehide', () => this.close());
    addEventListener('pageshow', () => this.resume());
    this.resume();
  }

  clear() {
    this.instance = null;
    this.parts = {};
    this.times = []; // seconds since 1970
    this.series = new Map();
    this.tail = []; // oldest first
  }

  // A hidden page needs no stream, and a browser has few connections to give.
  resume() {
    if (document.hidden) {
      this.close();
      this.connection = 'hidden';
    } else if (!this.source) {
      this.open();
    }
  }

  close() {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }

  open() {
    this.close();
    const source = this.source = new EventSource('/api/v1/stream');
    source.addEventListener('state', (e) => this.replace(JSON.parse(e.data), 'live'));
    source.addEventListener('tick', (e) => this.advance(JSON.parse(e.data)));
    source.onerror = () => {
      this.lost();
      if (source.readyState === EventSource.CLOSED) this.poll(); // refused: too many readers, or no gateway
    };
  }

  lost() {
    this.lostAt ??= Date.now();
    this.connection = 'lost';
    this.onChange(this);
  }

  // poll reads the state once and then tries to open the stream again.
  async poll() {
    this.close();
    this.retry = setTimeout(() => this.open(), 5000);
    try {
      const answer = await fetch('/api/v1/state', {cache: 'no-store'});
      if (answer.ok) this.replace(await answer.json(), 'polling');
    } catch {
      // The next try tells.
    }
  }

  replace(state, connection) {
    this.clear();
    this.connection = connection;
    this.lostAt = null;
    this.instance = state.instance;
    this.parts = state.parts;
    this.times = state.history.times.map((t) => t / 1000);
    for (const [name, values] of Object.entries(state.history.series)) {
      this.series.set(name, counted.test(name) ? values.map((v) => v ?? 0) : values);
    }
    this.tail = state.tail.slice(-keptTail);
    this.onChange(this);
  }

  advance(tick) {
    this.connection = 'live';
    this.lostAt = null;
    for (const [name, part] of Object.entries(tick.parts)) {
      if (part === null) delete this.parts[name];
      else this.parts[name] = part;
    }
    this.append(tick.point);
    const last = this.tail.at(-1)?.n ?? 0;
    this.tail = this.tail.concat(tick.tail.filter((d) => d.n > last)).slice(-keptTail);
    this.onChange(this);
  }

  append(point) {
    const t = point.t / 1000;
    if (t <= (this.times.at(-1) ?? 0)) return;
    for (const name of Object.keys(point.v)) {
      if (!this.series.has(name)) this.series.set(name, this.times.map(() => (counted.test(name) ? 0 : null)));
    }
    this.times = [...this.times, t].slice(-kept);
    for (const [name, values] of this.series) {
      this.series.set(name, [...values, point.v[name] ?? (counted.test(name) ? 0 : null)].slice(-kept));
    }
  }

  // values returns a series, zero where it was never seen.
  values(name) {
    return this.series.get(name) ?? this.times.map(() => 0);
  }

  // lately is the mean of a series' last few values; null where there are none.
  lately(name, n = 3) {
    const values = (this.series.get(name) ?? []).slice(-n).filter((v) => v != null);
    return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
  }

  // names lists the series below a prefix, without it.
  names(prefix) {
    return [...this.series.keys()].filter((n) => n.startsWith(prefix)).map((n) => n.slice(prefix.length));
  }
}

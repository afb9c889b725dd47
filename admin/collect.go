package admin

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/admission"
)

// Source is another part's share of the metrics. At each scrape it is called
// with a function to emit values of metrics in the catalogue; labels are in
// the catalogue's order.
type Source func(emit func(name string, value float64, labels ...string))

type sources struct {
	mu  sync.Mutex
	all []Source
}

// AddSource has s asked at each scrape. s must be quick and safe for
// concurrent use.
func (m *Metrics) AddSource(s Source) {
	m.sources.mu.Lock()
	defer m.sources.mu.Unlock()
	m.sources.all = append(m.sources.all, s)
}

var descs, byName = func() (d [metricCount]*prometheus.Desc, byName map[string]int) {
	byName = make(map[string]int)
	for i, info := range catalogue {
		d[i] = prometheus.NewDesc(info.Name, info.Help, info.Labels, nil)
		byName[info.Name] = i
	}
	return d, byName
}()

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descs {
		ch <- d
	}
}

// snapshot is the stripes added up. Each route and class is copied at one
// instant; begun is read last, so it is never behind the decisions.
type snapshot struct {
	names    []cellName
	cells    []*cell // by cell id; nil where nothing was counted
	overhead [stageCount]histogram
	origin   [codeCount]histogram
	retry    [reasonCount]histogram
	limits   [maxLimits + 1]limitCounts
	tenants  []tenantCounts
	begun    uint64
}

func (m *Metrics) snapshot() *snapshot {
	sn := &snapshot{names: m.names.list()}
	sn.cells = make([]*cell, len(sn.names))
	sn.tenants = make([]tenantCounts, m.tenants.slots())
	for _, st := range m.stripes {
		for id := range sn.cells {
			st.mu.Lock()
			if id < len(st.cells) && st.cells[id] != nil {
				if sn.cells[id] == nil {
					sn.cells[id] = new(cell)
				}
				sn.cells[id].merge(st.cells[id])
			}
			st.mu.Unlock()
		}
		st.mu.Lock()
		for i := range st.overhead {
			sn.overhead[i].merge(&st.overhead[i])
		}
		for i := range st.origin {
			sn.origin[i].merge(&st.origin[i])
		}
		for i := range st.retry {
			sn.retry[i].merge(&st.retry[i])
		}
		for i, l := range st.limits {
			sn.limits[i].allowed += l.allowed
			sn.limits[i].refused += l.refused
			sn.limits[i].shadow += l.shadow
		}
		for slot := range st.tenants {
			for v, n := range st.tenants[slot] {
				sn.tenants[slot][v] += n
			}
		}
		st.mu.Unlock()
	}
	// Where nobody begins requests, those that have ended were received.
	sn.begun = max(m.begun.load(), sn.ended())
	return sn
}

func (sn *snapshot) ended() (n uint64) {
	for _, c := range sn.used() {
		for _, v := range c.verdicts {
			n += v
		}
	}
	return n
}

// used lists the cells in which something was counted, by id.
func (sn *snapshot) used() iter.Seq2[int, *cell] {
	return func(yield func(int, *cell) bool) {
		for id, c := range sn.cells {
			if c != nil && !yield(id, c) {
				return
			}
		}
	}
}

// cell returns the cell of that id, empty where nothing was counted.
func (sn *snapshot) cell(id int) *cell {
	if id < len(sn.cells) && sn.cells[id] != nil {
		return sn.cells[id]
	}
	return new(cell)
}

// collector sends the values of one scrape.
type collector struct{ ch chan<- prometheus.Metric }

func (c collector) value(metric int, v float64, labels ...string) {
	kind := prometheus.CounterValue
	if catalogue[metric].Kind == Gauge {
		kind = prometheus.GaugeValue
	}
	pm, err := prometheus.NewConstMetric(descs[metric], kind, v, labels...)
	if err != nil {
		pm = prometheus.NewInvalidMetric(descs[metric], err)
	}
	c.ch <- pm
}

// count leaves out what never happened.
func (c collector) count(metric int, n uint64, labels ...string) {
	if n > 0 {
		c.value(metric, float64(n), labels...)
	}
}

func (c collector) histogram(metric int, b *bounds, h *histogram, labels ...string) {
	n := h.count()
	if n == 0 {
		return
	}
	c.ch <- prometheus.MustNewConstHistogram(descs[metric], n, h.sum.Seconds(), h.cumulative(b), labels...)
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	c := collector{ch}
	m.tenants.rank(m.now(), m.stripes)
	sn := m.snapshot()

	c.value(mRequestsReceived, float64(sn.begun))
	c.value(mRequestsInFlight, float64(sn.begun-sn.ended()))
	for id, cell := range sn.used() {
		c.cell(sn.names[id], cell)
		if cell.seconds != nil {
			c.candidate(sn.names[id], cell.seconds)
		}
	}
	for i := range sn.overhead {
		c.histogram(mGatewayOverhead, overheadBounds, &sn.overhead[i], stageNames[i])
	}
	for i := range sn.origin {
		c.histogram(mOriginDuration, requestBounds, &sn.origin[i], codeNames[i])
	}
	for i := range sn.retry {
		c.histogram(mRetryAfter, retryBounds, &sn.retry[i], admission.Reason(i).String())
	}
	for i, l := range sn.limits {
		name := "other"
		if known := m.limits.list(); i < len(known) {
			name = known[i]
		}
		c.count(mRateLimitChecks, l.allowed, name, "allowed", "enforce")
		c.count(mRateLimitChecks, l.refused, name, "refused", "enforce")
		c.count(mRateLimitChecks, l.shadow, name, "refused", "shadow")
	}
	labels, counts := m.tenantCounts(sn)
	for i, label := range labels {
		for v, n := range counts[i] {
			c.count(mTenantDecisions, n, label, admission.Verdict(v).String())
		}
	}
	var overflow uint64
	for _, n := range sn.tenants[slotOther] {
		overflow += n
	}
	c.value(mTenantOverflow, float64(overflow))

	var l LogCounts
	if m.log != nil {
		l = m.log.Counts()
	}
	c.value(mDecisionLogRecords, float64(l.Written), "written")
	c.value(mDecisionLogRecords, float64(l.SampledOut), "sampled_out")
	c.value(mDecisionLogRecords, float64(l.Dropped), "dropped")
	c.value(mDecisionLogRecords, float64(l.Failed), "failed")
	c.value(mBuildInfo, 1, m.version, runtime.Version())
	for i, class := range m.newest().Classes {
		c.value(mClassRank, float64(i+1), class)
	}
	m.config.collect(c)
	m.collectSources(c)
}

func (c collector) cell(name cellName, cell *cell) {
	route, class := name.route, name.class
	for v, n := range cell.verdicts {
		if verdict := admission.Verdict(v); verdict != admission.Refuse {
			c.count(mDecisions, n, route, class, verdict.String(), "none", "enforce")
		}
	}
	for i := range reasonCount {
		reason := admission.Reason(i).String()
		c.count(mDecisions, cell.refused[i], route, class, "refuse", reason, "enforce")
		c.count(mDecisions, cell.shadow[i], route, class, "refuse", reason, "shadow")
		c.count(mRequestFailures, cell.failures[i], route, class, reason)
	}
	for o := range outcomeCount {
		outcome := admission.Outcome(o).String()
		var n uint64
		for v := range verdictCount {
			h := &cell.duration[v][o]
			n += h.count()
			c.histogram(mRequestDuration, requestBounds, h, route, class, admission.Verdict(v).String(), outcome)
		}
		c.count(mRequestsCompleted, n, route, class, outcome)
	}
}

func (cs *configState) collect(c collector) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	successful := 0.
	if !cs.failed && !cs.loaded.IsZero() {
		successful = 1
	}
	c.value(mReloadSuccessful, successful)
	if !cs.loaded.IsZero() {
		c.value(mReloadSuccessTime, float64(cs.loaded.UnixMilli())/1000)
		c.value(mConfigInfo, 1, cs.hash)
	}
	for k, n := range cs.counts {
		c.count(mReloads, n, k.trigger, k.result)
	}
}

func (m *Metrics) collectSources(c collector) {
	m.sources.mu.Lock()
	all := slices.Clone(m.sources.all)
	m.sources.mu.Unlock()
	for _, source := range all {
		source(func(name string, value float64, labels ...string) {
			if metric, ok := byName[name]; ok {
				c.value(metric, value, labels...)
				return
			}
			c.ch <- prometheus.NewInvalidMetric(descs[mBuildInfo], fmt.Errorf("metric %s is not in the catalogue", name))
		})
	}
}

// tenantCounts lists the labels in use and their counts. Labels of different
// tenants can coincide where a name is made up to look like the shortened form
// of another; they are shown as one.
func (m *Metrics) tenantCounts(sn *snapshot) (labels []string, counts []tenantCounts) {
	at := make(map[string]int)
	for slot, label := range m.tenants.labels() {
		if label == "" {
			continue
		}
		i, ok := at[label]
		if !ok {
			i = len(labels)
			at[label] = i
			labels = append(labels, label)
			counts = append(counts, tenantCounts{})
		}
		for v, n := range sn.tenants[slot] {
			counts[i][v] += n
		}
	}
	return labels, counts
}

package load

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"time"

	"sluice/bench/wire"
)

// request is one attempt at an effect.
type request struct {
	effect   uint64
	key      uint64 // the effect whose key is used; 0 is none
	class    int
	tenant   int
	attempt  int // from 1
	stage    int
	intended time.Duration
	first    time.Duration // intended time of the effect's first request
	conflict bool
	repeat   bool
	obeyed   bool // sent because a Retry-After said so
	ticket   string
}

// again is the next attempt at the same effect.
func (q *request) again() request {
	a := *q
	a.attempt++
	a.obeyed, a.ticket = false, ""
	return a
}

// mix decides what each arrival is. Class, tenant and key have random sources
// of their own, so that changing one of them leaves the others as they were.
type mix struct {
	classes []classMix
	total   float64
	rand    *rand.Rand
	seed    uint64
	effects uint64
}

type classMix struct {
	*Class
	tenants []string
	weights []float64 // cumulative
	rand    *rand.Rand
	keys    *rand.Rand
	recent  []request // effects that repeats and conflicts choose from
	fields  [][2]string
	pad     []byte
}

// recentMax is how many effects a repeat chooses from.
const recentMax = 1024

func newMix(classes []Class, seed uint64) *mix {
	m := &mix{rand: rand.New(rand.NewPCG(seed, 20)), seed: seed}
	for i := range classes {
		c := &classes[i]
		m.total += c.Share
		cm := classMix{
			Class: c,
			rand:  rand.New(rand.NewPCG(seed, 100+uint64(i))),
			keys:  rand.New(rand.NewPCG(seed, 10_000+uint64(i))),
			pad:   make([]byte, c.Body),
		}
		sum := 0.0
		for n := 1; n <= c.Tenants.Count; n++ {
			sum += math.Pow(float64(n), -c.Tenants.Skew)
			cm.tenants = append(cm.tenants, c.Tenants.Prefix+strconv.Itoa(n))
			cm.weights = append(cm.weights, sum)
		}
		if c.Tenants.Heavy != "" {
			cm.tenants = append(cm.tenants, c.Tenants.Heavy)
		}
		for j := range cm.pad {
			cm.pad[j] = 'a' + byte(j%26)
		}
		for k, v := range c.Header {
			cm.fields = append(cm.fields, [2]string{k, v})
		}
		sort.Slice(cm.fields, func(a, b int) bool { return cm.fields[a][0] < cm.fields[b][0] })
		cm.fields = append(cm.fields, [2]string{wire.Class, c.Name})
		m.classes = append(m.classes, cm)
	}
	return m
}

// request says what the arrival a is.
func (m *mix) request(a arrival) request {
	u, ci := m.rand.Float64()*m.total, 0
	for ci < len(m.classes)-1 && u >= m.classes[ci].Share {
		u -= m.classes[ci].Share
		ci++
	}
	c := &m.classes[ci]
	r := request{class: ci, attempt: 1, stage: a.stage, intended: a.at, first: a.at, tenant: c.tenant()}
	if c.Keys.Use {
		switch u := c.keys.Float64(); {
		case len(c.recent) == 0 || u >= c.Keys.Repeat+c.Keys.Conflict:
		case u < c.Keys.Repeat:
			old := c.recent[c.keys.IntN(len(c.recent))]
			r.effect, r.key, r.tenant, r.first, r.repeat = old.effect, old.key, old.tenant, old.first, true
			return r
		default:
			old := c.recent[c.keys.IntN(len(c.recent))]
			m.effects++
			r.effect, r.key, r.tenant, r.conflict = m.effects, old.key, old.tenant, true
			return r
		}
	}
	m.effects++
	r.effect = m.effects
	if c.Keys.Use {
		r.key = r.effect
		if c.Keys.Repeat+c.Keys.Conflict > 0 {
			if len(c.recent) < recentMax {
				c.recent = append(c.recent, r)
			} else {
				c.recent[r.effect%recentMax] = r
			}
		}
	}
	return r
}

func (c *classMix) tenant() int {
	if c.Tenants.Heavy != "" && c.rand.Float64() < c.Tenants.HeavyShare {
		return len(c.tenants) - 1
	}
	u := c.rand.Float64() * c.weights[len(c.weights)-1]
	return min(sort.SearchFloat64s(c.weights, u), len(c.weights)-1)
}

// appendKey writes the Idempotency-Key of an effect.
func (m *mix) appendKey(b []byte, key uint64) []byte {
	b = append(b, "bench-"...)
	b = strconv.AppendUint(b, m.seed, 36)
	b = append(b, '-')
	return strconv.AppendUint(b, key, 10)
}

// appendBody writes the body of an effect: the same for each attempt, different
// for each effect.
func (c *classMix) appendBody(b []byte, effect uint64) []byte {
	start := len(b)
	b = append(b, `{"effect":`...)
	b = strconv.AppendUint(b, effect, 10)
	b = append(b, `,"class":`...)
	name, _ := json.Marshal(c.Name) // a string always marshals
	b = append(b, name...)
	const frame = len(`,"pad":""}`)
	if room := c.Body - (len(b) - start) - frame; room > 0 {
		b = append(b, `,"pad":"`...)
		b = append(b, c.pad[:room]...)
		b = append(b, '"')
	}
	return append(b, '}')
}

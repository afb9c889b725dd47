package command

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// lostMsg says that the stream broke off.
type lostMsg struct{}

// topData is what is known of the gateway. Once it is shown it does not change.
type topData struct {
	instance string
	parts    map[string]json.RawMessage
	status   status
	at       time.Time            // by the gateway's clock
	series   map[string][]float64 // the last topSpan seconds, newest last
	tail     []tailed             // oldest first
}

const (
	topSpan = 60  // seconds of history
	topTail = 500 // decisions
)

// views of the gateway, by their keys 1 to 5.
var topViews = []string{"all", "queues", "tenants", "routes", "decisions"}

// topOrders are how tenants and routes can be sorted.
var topOrders = []string{"offered", "refused", "name"}

// topModel is the state of the program.
type topModel struct {
	address       string
	width, height int

	live, shown *topData // the same but while paused; nil before the first state
	lost        bool
	paused      bool

	view, order int
	filter      string
	typing      bool // the filter is being written
	scroll      int  // lines
}

func newTopModel(address string) *topModel {
	return &topModel{address: address, width: 80, height: 24}
}

// Init implements [tea.Model].
func (m *topModel) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case *feedState:
		m.take(newTopData(msg))
	case *feedTick:
		if m.live != nil {
			m.take(m.live.next(msg))
		}
	case lostMsg:
		m.lost = true
	case tea.KeyPressMsg:
		if m.typing {
			return m, m.write(msg)
		}
		return m, m.key(msg.String())
	}
	return m, nil
}

func (m *topModel) take(d *topData) {
	m.lost = false
	m.live = d
	if !m.paused || m.shown == nil {
		m.shown = d
	}
}

func (m *topModel) key(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "p", "space":
		m.paused = !m.paused
		m.shown = m.live
	case "s":
		m.order = (m.order + 1) % len(topOrders)
	case "/":
		m.typing = true
	case "esc":
		m.filter = ""
	case "tab":
		m.view, m.scroll = (m.view+1)%len(topViews), 0
	case "shift+tab":
		m.view, m.scroll = (m.view+len(topViews)-1)%len(topViews), 0
	case "1", "2", "3", "4", "5":
		m.view, m.scroll = int(key[0]-'1'), 0
	case "down", "j":
		m.scroll++
	case "up", "k":
		m.scroll = max(0, m.scroll-1)
	case "pgdown":
		m.scroll += max(1, m.height-6)
	case "pgup":
		m.scroll = max(0, m.scroll-max(1, m.height-6))
	case "home", "g":
		m.scroll = 0
	}
	return nil
}

// write changes the filter by a key.
func (m *topModel) write(k tea.KeyPressMsg) tea.Cmd {
	switch key := k.String(); key {
	case "ctrl+c":
		return tea.Quit
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	case "ctrl+u":
		m.filter = ""
	default:
		m.filter += k.Key().Text
	}
	m.scroll = 0
	return nil
}

func newTopData(s *feedState) *topData {
	d := &topData{instance: s.Instance, parts: s.Parts, series: make(map[string][]float64), at: time.Now()}
	n := len(s.History.Times)
	if n > 0 {
		d.at = time.UnixMilli(s.History.Times[n-1])
	}
	for name, values := range s.History.Series {
		kept := make([]float64, min(n, topSpan))
		for i := range kept {
			if v := values[len(values)-len(kept)+i]; v != nil {
				kept[i] = *v
			}
		}
		d.series[name] = kept
	}
	d.append(s.Tail)
	d.read()
	return d
}

// next is what is known after a tick.
func (d *topData) next(t *feedTick) *topData {
	n := &topData{instance: d.instance, parts: maps.Clone(d.parts), series: make(map[string][]float64), at: time.UnixMilli(t.Point.T), tail: slices.Clone(d.tail)}
	maps.Copy(n.parts, t.Parts)
	maps.DeleteFunc(n.parts, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	length := 0
	for _, values := range d.series {
		length = max(length, len(values))
	}
	add := func(name string) {
		values := slices.Clone(d.series[name])
		if values == nil {
			values = make([]float64, length)
		}
		values = append(values, t.Point.V[name])
		n.series[name] = values[max(0, len(values)-topSpan):]
	}
	for name := range d.series {
		add(name)
	}
	for name := range t.Point.V {
		if d.series[name] == nil {
			add(name)
		}
	}
	n.append(t.Tail)
	n.read()
	return n
}

func (d *topData) append(tail []json.RawMessage) {
	for _, raw := range tail {
		var line tailed
		if json.Unmarshal(raw, &line) == nil {
			d.tail = append(d.tail, line)
		}
	}
	d.tail = d.tail[max(0, len(d.tail)-topTail):]
}

// read makes a status of the parts. One that has changed its form is shown as
// far as it can be read.
func (d *topData) read() {
	if whole, err := json.Marshal(d.parts); err == nil {
		_ = json.Unmarshal(whole, &d.status)
	}
	d.status.Now = d.at
}

// lately is the mean of a series over its last three seconds.
func (d *topData) lately(name string) float64 {
	values := d.series[name]
	values = values[max(0, len(values)-3):]
	sum := 0.
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// matcher reads a filter as the dashboard does: words that must all appear, each
// in any field, or after a colon in the field named, as in tenant:acme.
func matcher(filter string) func(fields map[string]string) bool {
	type term struct{ field, text string }
	var terms []term
	for _, word := range strings.Fields(strings.ToLower(filter)) {
		field, text, named := strings.Cut(word, ":")
		if !named || !slices.Contains(matchedFields, field) {
			field, text = "", word
		}
		terms = append(terms, term{field, text})
	}
	return func(fields map[string]string) bool {
		for _, t := range terms {
			hit := false
			for name, value := range fields {
				hit = hit || (t.field == "" || t.field == name) && strings.Contains(strings.ToLower(value), t.text)
			}
			if !hit {
				return false
			}
		}
		return true
	}
}

var matchedFields = []string{"tenant", "route", "class", "reason", "verdict", "id", "failure", "shadow"}

func (d *tailed) fields() map[string]string {
	return map[string]string{
		"tenant": d.Tenant, "route": d.Route, "class": d.Class, "reason": d.Reason,
		"verdict": d.Verdict, "id": d.ID, "failure": d.Failure, "shadow": d.Shadow,
	}
}

package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/admission"
	"sluice/config"
	"sluice/rehearse"
	"sluice/rehearse/recording"
)

// Report is what a replay came to.
type Report struct {
	Recording Source `json:"recording"`
	Candidate Policy `json:"candidate"`
	// Same: the candidate is the policy that made all the decisions, so that the
	// replay is a check of itself.
	Same bool `json:"same"`

	// Compared is how many decisions were made again and compared, Changed how
	// many of them came out otherwise.
	Compared int `json:"compared"`
	Changed  int `json:"changed"`
	// Decisions by outcome: admit, replay, or refuse and its reason.
	Recorded map[string]int `json:"recorded"`
	Replayed map[string]int `json:"replayed"`
	Changes  []Change       `json:"changes"` // the most common first
	Classes  []Group        `json:"classes"`
	Tenants  []Group        `json:"tenants"` // those with most changes, at most [TopTenants]
	Routes   []Group        `json:"routes"`
	// Reclassed is how many requests have another class.
	Reclassed int   `json:"reclassed"`
	Curve     Curve `json:"curve"`
	// Taken is what was taken as recorded, and why, the most common first.
	Taken []Note `json:"taken"`
	// Warnings say what else the figures depend on.
	Warnings []string `json:"warnings"`
}

// Source is what was replayed.
type Source struct {
	Files      []string  `json:"files"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	Decisions  int       `json:"decisions"`
	Readings   int       `json:"readings"`
	Policies   []Policy  `json:"policies"`
	SampledOut uint64    `json:"sampled_out"`
	Dropped    uint64    `json:"dropped"`
	// Complete: no decision is missing between From and To.
	Complete bool `json:"complete"`
}

// Policy names a configuration.
type Policy struct {
	File string `json:"file"`
	Hash string `json:"hash"`
}

// Change is one kind of change, with one request that shows it.
type Change struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Class   string `json:"class"`
	Route   string `json:"route"`
	Count   int    `json:"count"`
	Example string `json:"example"` // request id
	Tenant  string `json:"tenant"`  // of the example
}

// Group is the decisions about one class, tenant or route.
type Group struct {
	Name     string `json:"name"`
	Requests int    `json:"requests"`
	Recorded int    `json:"recorded_admitted"`
	Replayed int    `json:"replayed_admitted"`
	Changed  int    `json:"changed"`
}

// Note is a count of something that has a name.
type Note struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}

// Curve is the share admitted of each class over time.
type Curve struct {
	Every   time.Duration  `json:"-"`
	Seconds float64        `json:"every_seconds"`
	Classes []CurveOfClass `json:"classes"`
}

// CurveOfClass has one point for each slice of time.
type CurveOfClass struct {
	Class  string  `json:"class"`
	Points []Point `json:"points"`
}

// Point is what became of the requests of one class in one slice of time.
type Point struct {
	Requests int `json:"requests"`
	Recorded int `json:"recorded_admitted"`
	Replayed int `json:"replayed_admitted"`
}

// TopTenants is how many tenants a report tells apart.
const TopTenants = 10

// slices of a curve, at most.
const maxPoints = 60

// Run replays rec under cfg. seed is that of what is drawn besides what was
// recorded.
func Run(cfg *config.Config, rec *recording.Recording, seed uint64) (*Report, error) {
	player, err := NewPlayer(cfg, rec, seed)
	if err != nil {
		return nil, err
	}
	defer player.Close()
	t := &tally{
		rec: rec, begin: rec.Begin(), changes: map[changeKey]*Change{}, taken: map[Taken]int{},
		classes: map[string]*Group{}, tenants: map[string]*Group{}, routes: map[string]*Group{}, curve: map[string][]Point{},
		out: &Report{Recorded: map[string]int{}, Replayed: map[string]int{}},
	}
	t.source()
	for {
		more, err := player.Next(func(m Made) { t.add(player.Stage, m) })
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	if err := player.Finish(); err != nil {
		return nil, err
	}
	t.finish(cfg, player)
	return t.out, nil
}

// Word is a decision as reports show it.
func Word(v admission.Verdict, r admission.Reason) string {
	if v == admission.Refuse {
		return "refuse " + r.String()
	}
	return v.String()
}

type changeKey struct{ from, to, class, route string }

// tally adds a report up.
type tally struct {
	rec     *recording.Recording
	begin   time.Time
	out     *Report
	changes map[changeKey]*Change
	taken   map[Taken]int
	classes map[string]*Group
	tenants map[string]*Group
	routes  map[string]*Group
	curve   map[string][]Point
	every   time.Duration
}

func (t *tally) source() {
	s := &t.out.Recording
	*s = Source{Files: t.rec.Files, From: t.begin, To: t.begin, Decisions: len(t.rec.Decisions), Readings: len(t.rec.Signals)}
	for _, d := range t.rec.Decisions {
		if at := d.Asked(); at.After(s.To) {
			s.To = at
		}
	}
	s.SampledOut, s.Dropped = t.rec.Missing()
	s.Complete = s.SampledOut == 0 && s.Dropped == 0 && len(t.rec.Policies) > 0
	seen := map[string]bool{}
	for _, p := range t.rec.Policies {
		s.Complete = s.Complete && p.Admits == "all" && p.Refusals == "all"
		if !seen[p.Config] {
			seen[p.Config] = true
			s.Policies = append(s.Policies, Policy{p.File, p.Config})
		}
	}
	t.every = time.Second
	for _, step := range []time.Duration{2, 5, 10, 30, 60, 300, 600, 3600, 6 * 3600, 24 * 3600} {
		if s.To.Sub(s.From)/t.every >= maxPoints {
			t.every = step * time.Second
		}
	}
	for s.To.Sub(s.From)/t.every >= maxPoints { // months
		t.every *= 2
	}
}

func (t *tally) add(stage *rehearse.Stage, m Made) {
	if m.Taken != "" {
		t.taken[m.Taken]++
		return
	}
	out, d, p := t.out, m.Decision, m.Performance
	from, to := Word(d.Verdict, d.Reason), Word(p.Decision.Verdict, p.Decision.Reason)
	changed := from != to
	let, lets := d.Verdict != admission.Refuse, p.Decision.Verdict != admission.Refuse
	out.Compared++
	out.Recorded[from]++
	out.Replayed[to]++
	for _, g := range []struct {
		of   map[string]*Group
		name string
	}{{t.classes, d.Class}, {t.tenants, d.Tenant}, {t.routes, d.Route}} {
		group := g.of[g.name]
		if group == nil {
			group = &Group{Name: g.name}
			g.of[g.name] = group
		}
		group.Requests++
		group.Recorded += number(let)
		group.Replayed += number(lets)
		group.Changed += number(changed)
	}
	i := int(d.Asked().Sub(t.begin) / t.every)
	points := t.curve[d.Class]
	for len(points) <= i {
		points = append(points, Point{})
	}
	points[i].Requests++
	points[i].Recorded += number(let)
	points[i].Replayed += number(lets)
	t.curve[d.Class] = points
	if stage.ClassName(p.Request.Class) != d.Class {
		out.Reclassed++
	}
	if !changed {
		return
	}
	out.Changed++
	key := changeKey{from, to, d.Class, d.Route}
	c := t.changes[key]
	if c == nil {
		c = &Change{From: from, To: to, Class: d.Class, Route: d.Route, Example: d.ID, Tenant: d.Tenant}
		t.changes[key] = c
	}
	c.Count++
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (t *tally) finish(cfg *config.Config, player *Player) {
	out := t.out
	out.Candidate = Policy{cfg.Source.File, cfg.Source.Hash}
	out.Same = len(t.rec.Decisions) > 0
	for _, d := range t.rec.Decisions {
		out.Same = out.Same && d.Config == cfg.Source.Hash
	}
	for _, c := range t.changes {
		out.Changes = append(out.Changes, *c)
	}
	slices.SortFunc(out.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.From+a.To+a.Class+a.Route, b.From+b.To+b.Class+b.Route))
	})
	out.Classes = t.inOrder()
	out.Routes = sorted(t.routes)
	out.Tenants = sorted(t.tenants)
	out.Tenants = out.Tenants[:min(len(out.Tenants), TopTenants)]
	out.Curve = Curve{Every: t.every, Seconds: t.every.Seconds()}
	for _, class := range out.Classes {
		out.Curve.Classes = append(out.Curve.Classes, CurveOfClass{class.Name, t.curve[class.Name]})
	}
	for _, why := range slices.Sorted(maps.Keys(t.taken)) {
		out.Taken = append(out.Taken, Note{string(why), t.taken[why]})
	}
	slices.SortStableFunc(out.Taken, func(a, b Note) int { return cmp.Compare(b.Count, a.Count) })
	out.Warnings = t.warnings(cfg, player)
}

// inOrder are the classes as the recorded policies rank them.
func (t *tally) inOrder() []Group {
	rank := map[string]int{}
	for _, p := range t.rec.Policies {
		for i, name := range p.Classes {
			rank[name] = i + 1
		}
	}
	groups := sorted(t.classes)
	slices.SortStableFunc(groups, func(a, b Group) int {
		ra, rb := rank[a.Name], rank[b.Name]
		if ra == 0 || rb == 0 { // those without a class come last
			ra, rb = number(ra == 0), number(rb == 0)
		}
		return cmp.Compare(ra, rb)
	})
	return groups
}

// sorted are groups by how many decisions changed, and then by name.
func sorted(groups map[string]*Group) []Group {
	all := make([]Group, 0, len(groups))
	for _, g := range groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (t *tally) warnings(cfg *config.Config, player *Player) (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	s := &t.out.Recording
	for _, file := range t.rec.Cut {
		warn("the last line of %s is cut off, and left out", file)
	}
	if !s.Complete {
		switch {
		case s.SampledOut+s.Dropped > 0:
			warn("%d decisions are missing (%d over the rates that are written, %d dropped), besides admitted ones that were not to be written: buckets are fuller, and queues admit more easily, than they did; write decision_log.complete: true", s.SampledOut+s.Dropped, s.SampledOut, s.Dropped)
		case len(t.rec.Policies) == 0:
			warn("no line says which policy was in force and what was written, so decisions may be missing")
		default:
			warn("not every decision was to be written: buckets are fuller, and queues admit more easily, than they did; write decision_log.complete: true")
		}
	}
	if len(t.rec.Policies) > 0 && t.begin.Before(t.rec.Policies[0].Time) {
		warn("the recording begins in the middle: buckets begin full, and what was learned of queues before it is not known")
	}
	for _, p := range t.rec.Policies {
		if !p.Signals && len(cfg.Queues) > 0 {
			warn("readings of signals were not recorded, so that queues are as if nothing were known of them")
			break
		}
	}
	unread := Unread(cfg, t.rec)
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		warn("%s reads the field %s, which was not recorded with %d decisions: there it counts as absent; name it in decision_log.headers", cfg.Source.File, name, unread[name])
	}
	for _, name := range slices.Sorted(maps.Keys(player.Unheard)) {
		warn("%s has no signal for the %d readings of %s", cfg.Source.File, player.Unheard[name], name)
	}
	if player.Strangers > 0 {
		warn("%d requests came back for promises from before the recording, and count as newcomers", player.Strangers)
	}
	if n := t.identified(); n > 0 {
		warn("%d tenants were told by API keys, which are not recorded: who they are is taken as recorded", n)
	}
	others := 0
	for _, d := range t.rec.Decisions {
		others += number(d.Config != cfg.Source.Hash)
	}
	if others > 0 && len(s.Policies) > 1 {
		warn("the recording has decisions of %d policies; all are compared with those of %s", len(s.Policies), cfg.Source.File)
	}
	return all
}

// identified is how many decisions are about tenants known by API key.
func (t *tally) identified() (n int) {
	for _, d := range t.rec.Decisions {
		n += number(d.Identified != "" && d.Tenant != "")
	}
	return n
}

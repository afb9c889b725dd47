package admin

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"sluice/admission"
)

// CandidateStatus is the policy that decides beside the one in force, and is not
// obeyed.
type CandidateStatus struct {
	Path  string    `json:"path"`
	Hash  string    `json:"hash"` // of its configuration
	Since time.Time `json:"since"`
	// LoadError is of the latest attempt to load it; "" where that succeeded.
	LoadError string `json:"load_error,omitempty"`
	// Off: a panic has switched it off, until the next reload.
	Off bool `json:"off"`
	CandidateCounts
}

// CandidateCounts are a candidate's decisions since it is asked. Asked equals
// Same plus Different.
type CandidateCounts struct {
	Asked        uint64 `json:"asked"`
	Same         uint64 `json:"same"`
	Different    uint64 `json:"different"`
	Reclassified uint64 `json:"reclassified"` // given another class, decided as may be
	// Changes are the differences, the most frequent kind first.
	Changes []CandidateChange `json:"changes"`
}

// CandidateChange is one kind of difference.
type CandidateChange struct {
	Route     string `json:"route"`
	Class     string `json:"class"` // under the policy in force
	Live      string `json:"live"`  // verdict of the policy in force
	Candidate string `json:"candidate"`
	Reason    string `json:"reason"` // the candidate's; where that lets the request pass, of the policy in force
	Count     uint64 `json:"count"`
}

// seconds are the counts of a candidate's decisions in one cell.
type seconds struct {
	same         [verdictCount][reasonCount]uint64
	differ       [verdictCount][verdictCount][reasonCount]uint64 // in force, candidate, reason
	reclassified uint64
}

// candidateState is the candidate that is asked, and what had been counted before
// it was.
type candidateState struct {
	mu     sync.Mutex
	hash   string
	before []seconds // by cell id
}

// changeReason is the reason for which two decisions differ.
func changeReason(d *admission.Decision, s *admission.Second) admission.Reason {
	if s.Verdict == admission.Refuse {
		return s.Reason
	}
	return d.Reason
}

// count counts what a candidate decided about e, whose class is called class
// under the policy in force.
func (s *seconds) count(e *admission.Event, class string) {
	second, d := &e.Request.Second, &e.Decision
	if second.Differs(d) {
		s.differ[d.Verdict][second.Verdict][changeReason(d, second)]++
	} else {
		s.same[d.Verdict][d.Reason]++
	}
	if named(second.Class, noClass) != class {
		s.reclassified++
	}
}

// named is a name, or what stands for none.
func named(name, none string) string {
	if name == "" {
		return none
	}
	return name
}

func (s *seconds) merge(o *seconds) {
	for v := range s.same {
		for i, n := range o.same[v] {
			s.same[v][i] += n
		}
		for w := range s.differ[v] {
			for i, n := range o.differ[v][w] {
				s.differ[v][w][i] += n
			}
		}
	}
	s.reclassified += o.reclassified
}

// each calls f with every difference that was counted.
func (s *seconds) each(f func(live, candidate admission.Verdict, reason admission.Reason, n uint64)) {
	for v := range s.differ {
		for w := range s.differ[v] {
			for i, n := range s.differ[v][w] {
				if n > 0 {
					f(admission.Verdict(v), admission.Verdict(w), admission.Reason(i), n)
				}
			}
		}
	}
}

func (s *seconds) agreed() (n uint64) {
	for v := range s.same {
		for _, k := range s.same[v] {
			n += k
		}
	}
	return n
}

func (c collector) candidate(name cellName, s *seconds) {
	for v := range s.same {
		for i, n := range s.same[v] {
			verdict := admission.Verdict(v).String()
			c.count(mCandidateDecisions, n, name.route, name.class, verdict, verdict, admission.Reason(i).String(), "no")
		}
	}
	s.each(func(live, candidate admission.Verdict, reason admission.Reason, n uint64) {
		c.count(mCandidateDecisions, n, name.route, name.class, live.String(), candidate.String(), reason.String(), "yes")
	})
	c.count(mCandidateReclassified, s.reclassified, name.route, name.class)
}

// CandidateLoaded tells that the configuration of that hash is the candidate now.
// Where it is another one, the status counts from here on; metrics go on.
func (m *Metrics) CandidateLoaded(hash string) {
	m.candidate.mu.Lock()
	defer m.candidate.mu.Unlock()
	if m.candidate.hash == hash {
		return
	}
	m.candidate.hash = hash
	m.candidate.before = nil
	for id, c := range m.snapshot().used() {
		for len(m.candidate.before) <= id {
			m.candidate.before = append(m.candidate.before, seconds{})
		}
		if c.seconds != nil {
			m.candidate.before[id] = *c.seconds
		}
	}
}

// candidateCounts are the counts of the candidate that is asked now.
func (m *Metrics) candidateCounts(now *snapshot) CandidateCounts {
	m.candidate.mu.Lock()
	before := m.candidate.before
	m.candidate.mu.Unlock()
	counts := CandidateCounts{Changes: []CandidateChange{}}
	var none seconds
	for id, c := range now.used() {
		if c.seconds == nil {
			continue
		}
		was := &none
		if id < len(before) {
			was = &before[id]
		}
		counts.Same += c.seconds.agreed() - was.agreed()
		counts.Reclassified += c.seconds.reclassified - was.reclassified
		c.seconds.each(func(live, candidate admission.Verdict, reason admission.Reason, n uint64) {
			if n -= was.differ[live][candidate][reason]; n > 0 {
				counts.Different += n
				counts.Changes = append(counts.Changes, CandidateChange{
					now.names[id].route, now.names[id].class, live.String(), candidate.String(), reason.String(), n,
				})
			}
		})
	}
	counts.Asked = counts.Same + counts.Different
	slices.SortFunc(counts.Changes, func(a, b CandidateChange) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Class, b.Class),
			cmp.Compare(a.Live, b.Live), cmp.Compare(a.Candidate, b.Candidate), cmp.Compare(a.Reason, b.Reason))
	})
	return counts
}

// differSeconds says what a candidate decided since before, by series name.
func differSeconds(now, was *cell, add func(prefix, name string, n uint64)) {
	if now.seconds == nil {
		return
	}
	var none seconds
	before := was.seconds
	if before == nil {
		before = &none
	}
	asked := now.seconds.agreed() - before.agreed()
	now.seconds.each(func(live, candidate admission.Verdict, reason admission.Reason, n uint64) {
		n -= before.differ[live][candidate][reason]
		asked += n
		add("candidate/", changeKind(live, candidate), n)
	})
	add("candidate/", "asked", asked)
}

// changeKind tells in which direction a decision changes.
func changeKind(live, candidate admission.Verdict) string {
	switch {
	case candidate == admission.Refuse && live != admission.Refuse:
		return "refused_more"
	case candidate != admission.Refuse && live == admission.Refuse:
		return "refused_less"
	}
	return "otherwise"
}

// CandidateLine is what a candidate decided otherwise.
type CandidateLine struct {
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	Class   string `json:"class"`
	Route   string `json:"route"`
}

func candidateLine(s *admission.Second) *CandidateLine {
	return &CandidateLine{
		Verdict: s.Verdict.String(), Reason: s.Reason.String(),
		Class: named(s.Class, noClass), Route: named(s.Route, unmatchedRoute),
	}
}

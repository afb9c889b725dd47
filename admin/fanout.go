package admin

import "sluice/admission"

// Fanout is several observers as one. It reports every event to each, in
// order, on the caller's goroutine.
type Fanout []admission.Observer

// Observe implements [admission.Observer].
func (f Fanout) Observe(e *admission.Event) {
	for _, o := range f {
		o.Observe(e)
	}
}

// SetPolicy tells every observer that wants to know of p. It must have
// returned before the first request runs under p.
func (f Fanout) SetPolicy(p *Policy) {
	for _, o := range f {
		if o, ok := o.(interface{ SetPolicy(*Policy) }); ok {
			o.SetPolicy(p)
		}
	}
}

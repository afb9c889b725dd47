package config

import (
	"maps"
	"net/url"
	"slices"
	"time"

	"sluice/config/strict"
	"sluice/config/value"
)

func (k checker) checkQueues() {
	var queues []string
	for _, name := range slices.Sorted(maps.Keys(k.Queues)) {
		q := k.Queues[name]
		at := strict.Key("queues", string(name))
		queues = append(queues, string(name))
		k.checkSignals(at, &q)
		for _, class := range slices.Sorted(maps.Keys(q.Shed)) {
			band := strict.Key(at+".shed", string(class))
			if !k.FailedWithin("classes") {
				k.known(k.ProblemAtKey, band, strict.Quote(string(class)), "class", string(class), k.classNames())
			}
			k.checkBand(band, q.Shed[class], q.MaxUsefulAge)
		}
	}
	for i, r := range k.Routes {
		if r.Queue != "" && !k.Failed("queues") {
			at := strict.Index("routes", i) + ".queue"
			k.known(k.Problem, at, k.Written(at), "queue", string(r.Queue), queues)
		}
	}
}

func (k checker) checkBand(at string, b Band, limit value.Duration) {
	if k.FailedWithin(at) || limit == 0 {
		return
	}
	from, full := b.From.Of(limit), b.Full.Of(limit)
	if from > full {
		k.Problem(at+".from", "refusing cannot start (%s) after it is full (%s); write from: %s, full: %s", b.From, b.Full, b.Full, b.From)
	}
	for key, m := range map[string]Mark{"from": b.From, "full": b.Full} {
		if m.Of(limit) > 1 {
			k.Problem(at+"."+key, "%s is beyond max_useful_age (%s), where nothing but a probe passes; write at most 100%%", m, limit)
		}
	}
	if b.Status != 0 && b.Status != 429 && b.Status != 503 {
		k.Problem(at+".status", "%d is no status for lack of capacity; write 503 or 429", b.Status)
	}
}

func (k checker) checkSignals(at string, q *Queue) {
	names := make(map[ID]bool)
	for i := range q.Signals {
		s := &q.Signals[i]
		path := strict.Index(at+".signals", i)
		if s.Name == "" {
			s.Name = s.kind()
		}
		if names[s.Name] && s.Name != "" {
			k.Problem(path, "another signal of this queue is called %s, too; give each a name of its own", s.Name)
		}
		names[s.Name] = true
		if p := s.Prometheus; p != nil && p.Age == "" && p.Depth == "" && !k.FailedWithin(path) {
			k.Problem(path+".prometheus", "there is nothing to ask for; add age, depth or both")
		}
		if h := s.HTTP; h != nil && !k.FailedWithin(path) {
			if h.Age == "" && h.Depth == "" {
				k.Problem(path+".http", "there is nothing to read; add age, depth or both, as JSON pointers")
			}
			if u, err := url.Parse(h.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				k.Problem(path+".http.url", "%s is not the address of a document; write one such as http://127.0.0.1:3000/queue", strict.Quote(h.URL))
			}
			for key, pointer := range map[string]string{"age": h.Age, "depth": h.Depth, "done": h.Done, "sampled_at": h.SampledAt} {
				if pointer != "" && pointer[0] != '/' {
					k.Problem(path+".http."+key, "%s is not a JSON pointer; write it with a slash before each name, such as /queue/oldest_age", strict.Quote(pointer))
				}
			}
		}
		if t := s.SQL; t != nil && t.Table != "" && t.Waiting == "" && !k.FailedWithin(path) {
			k.Problem(path+".sql.table", "a table holds done work, too; add waiting, the condition for work that waits, such as processed_at IS NULL")
		}
	}
}

// kind is the name of the signal's reader.
func (s *Signal) kind() ID {
	switch {
	case s.RedisStream != nil:
		return "redis-stream"
	case s.RedisList != nil:
		return "redis-list"
	case s.RabbitMQ != nil:
		return "rabbitmq"
	case s.SQL != nil:
		return "sql"
	case s.Prometheus != nil:
		return "prometheus"
	case s.HTTP != nil:
		return "http"
	case s.Push != nil:
		return "push"
	}
	return ""
}

// Band returns the band of a class at q: the one that is written, or a step at
// max_useful_age.
func (q *Queue) Band(class ID) Band {
	if b, ok := q.Shed[class]; ok {
		return b
	}
	return Band{From: Mark{Share: 100}, Full: Mark{Share: 100}, Action: Shed, Status: 503, Mode: Enforce}
}

// lintQueues warns of bands and signals that do not do what they seem to.
func (k checker) lintQueues() {
	for _, name := range slices.Sorted(maps.Keys(k.Queues)) {
		q := k.Queues[name]
		at := strict.Key("queues", string(name))
		for i := 1; i < len(k.Classes); i++ {
			higher, lower := k.Classes[i-1].Name, k.Classes[i].Name
			h, l := q.Band(higher), q.Band(lower)
			if l.From.Of(q.MaxUsefulAge) > h.From.Of(q.MaxUsefulAge) || l.Full.Of(q.MaxUsefulAge) > h.Full.Of(q.MaxUsefulAge) || l.MinAdmit > h.MinAdmit && l.MinAdmit > 0 {
				k.Warn(at+".shed", "%s would outlast %s, which matters more; let it start and be full no later, and guarantee it no more", lower, higher)
			}
		}
		if first := q.Band(k.Classes[0].Name); first.From.Of(q.MaxUsefulAge) < 0.5 {
			k.Warn(strict.Key(at+".shed", string(k.Classes[0].Name)), "the most important class is refused from %s on, early for what matters most; leave it out, or start at 90%%", first.From)
		}
		for i, s := range q.Signals {
			if need := 2 * (time.Duration(s.Every) + time.Duration(s.Delay)); time.Duration(q.MaxUsefulAge) < need {
				k.Warn(strict.Index(at+".signals", i), "the signal is too slow for max_useful_age (%s): it is steered well from %s on; read it more often, or allow a greater age", q.MaxUsefulAge, need)
			}
		}
		if !slices.ContainsFunc(k.Routes, func(r Route) bool { return r.Queue == name }) {
			k.Warn(at, "no route puts work on this queue; name it as queue in routes, or remove it")
		}
	}
	total := 0.0
	for _, c := range k.Classes {
		total += float64(c.Share)
	}
	if total != 0 && (total < 99.5 || total > 100.5) {
		k.Warn("classes", "the shares add up to %s, not to 100%%; they are used in proportion", value.Percent(total))
	}
}

package export

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"sluice/admin"
	"sluice/admission"
)

// rows are the dashboard's rows, in order. What is not wanted at first sight is
// closed.
var rows = []struct {
	row    admin.Row
	title  string
	closed bool
}{
	{admin.RowOverview, "Overview", false},
	{admin.RowQueues, "Queues", false},
	{admin.RowClasses, "Classes", false},
	{admin.RowTenants, "Tenants", true},
	{admin.RowIdempotency, "Idempotency", true},
	{admin.RowOrigin, "Origin", true},
	{admin.RowGateway, "Gateway", true},
	{admin.RowCandidate, "Candidate policy (empty unless one runs beside the live one)", true},
}

// first is the value from which a panel's first colour holds: any.
var first = math.Inf(-1)

// fixed are the colours of what means the same wherever it is shown.
var fixed = [][2]string{
	{"admit", "green"}, {"replay", "blue"}, {"refuse", "orange"},
	{"tenant_limit", "purple"}, {"deferred", "yellow"}, {"shed", "orange"}, {"origin_full", "semi-dark-orange"},
	{"signal_lost", "red"}, {"store_unavailable", "dark-red"}, {"internal", "dark-red"},
	{"2xx", "green"}, {"3xx", "blue"}, {"4xx", "yellow"}, {"5xx", "red"}, {"none", "dark-red"},
	{"fresh", "green"}, {"replayed", "blue"}, {"in_doubt", "red"}, {"bypassed", "dark-red"},
}

// labelled are the values that a line may be named by, of labels whose values
// the program knows.
var labelled = map[string]string{
	"verdict": "admit replay refuse",
	"reason":  reasonNames(),
	"code":    "2xx 3xx 4xx 5xx none",
	"result":  "fresh replayed in_doubt bypassed store_unavailable",
}

func reasonNames() string {
	var all []string
	for _, r := range admission.Reasons() {
		all = append(all, r.String())
	}
	return strings.Join(all, " ")
}

// panels are all that the dashboard shows. Metrics of the catalogue that none of
// them has, but that belong to a row, get one of their own.
func panels(o Options) []panel {
	all := slices.Concat(overview(o), queuePanels, classPanels, tenantPanels, keyPanels, originPanels, gatewayPanels)
	var exprs []string
	for _, p := range all {
		exprs = append(exprs, p.exprs()...)
	}
	shown, _ := metricsOf(exprs...)
	for _, m := range admin.Catalogue() {
		if m.Row != "" && !slices.ContainsFunc(shown, func(s admin.MetricInfo) bool { return s.Name == m.Name }) {
			all = append(all, plain(m))
		}
	}
	return all
}

// plain is a panel with one metric as it is.
func plain(m admin.MetricInfo) panel {
	title := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(m.Name, "sluice_"), "_total"), "_"+m.Unit)
	title = strings.ReplaceAll(strings.ToUpper(title[:1])+title[1:], "_", " ")
	by, legend := "", title
	if len(m.Labels) > 0 {
		by, legend = " by ("+strings.Join(m.Labels, ", ")+")", "{{"+strings.Join(m.Labels, "}} {{")+"}}"
	}
	p := panel{Row: m.Row, Title: title, About: "Watch it for " + m.Use + "."}
	switch m.Kind {
	case admin.Counter:
		p.Queries = []query{{"sum" + by + " (rate(" + m.Name + "{@}[$__rate_interval]))", legend}}
	case admin.Histogram:
		p.Title += " (p99)"
		p.Queries = []query{{quantile(0.99, m.Name, m.Labels, ""), legend}}
	default:
		p.Queries = []query{{"max" + by + " (" + m.Name + "{@})", legend}}
	}
	return p
}

// quantile estimates a quantile of a histogram, by labels, of what more says.
func quantile(q float64, name string, by []string, more string) string {
	if more != "" {
		more = ", " + more
	}
	return fmt.Sprintf("histogram_quantile(%g, sum by (%s) (rate(%s_bucket{@%s}[$__rate_interval])))",
		q, strings.Join(append([]string{"le"}, by...), ", "), name, more)
}

// ofHighest narrows series with a class to the most important one.
const ofHighest = ` and on (job, instance, class) sluice_class_rank{@} == 1`

func overview(o Options) []panel {
	var links strings.Builder
	links.WriteString("An alert fired? Its page says what it means, how to look and what to do:\n\n")
	for _, name := range alertNames(o) {
		fmt.Fprintf(&links, "- [%s](${runbooks}/%s.md)\n", name, name)
	}
	return []panel{
		{
			Row: admin.RowOverview, Title: "Requests", Shape: number, Unit: "reqps", About: "What clients ask for.",
			Queries: []query{{"sum(rate(sluice_requests_received_total{@}[$__rate_interval]))", "requests"}},
		},
		{
			Row: admin.RowOverview, Title: "Let through or replayed", Shape: number, Share: true,
			About:   "The share of all requests that were not refused. Low is no fault: it may be one tenant over its limit, or bulk work that gives way.",
			Queries: []query{{`sum(rate(sluice_decisions_total{@, mode="enforce", verdict!="refuse"}[$__rate_interval])) / sum(rate(sluice_decisions_total{@, mode="enforce"}[$__rate_interval]))`, "not refused"}},
		},
		{
			Row: admin.RowOverview, Title: "Most important class accepted", Shape: number, Share: true,
			About: "Of the requests of the most important class that could have been let through, the share that was. Refusals for what a client did wrong, its own rate included, do not count. The objective is " + percent(o.Acceptance) + ".",
			Queries: []query{{`1 - (sum(rate(sluice_decisions_total{@, mode="enforce", reason=~"` + wantOfCapacity + `"}[$__rate_interval])` + ofHighest +
				`) or vector(0)) / sum(rate(sluice_decisions_total{@, mode="enforce", reason=~"` + countable + `"}[$__rate_interval])` + ofHighest + `)`, "accepted"}},
			Steps: []step{{first, "red"}, {tidy(1 - fastest*(1-o.Acceptance)), "orange"}, {o.Acceptance, "green"}},
		},
		{
			Row: admin.RowOverview, Title: "Worst queue, of its objective", Shape: number, Unit: "percentunit",
			About:   "How far the worst queue's predicted wait is towards its max_useful_age. At 100 % nothing that is let in is done in time.",
			Queries: []query{{"max(sluice_queue_wait_seconds{@} / sluice_queue_max_useful_age_seconds{@})", "of the objective"}},
			Steps:   []step{{first, "green"}, {0.5, "yellow"}, {0.9, "red"}},
		},
		{
			Row: admin.RowOverview, Title: "Signals lost", Shape: number,
			About:   "Queues that cannot be seen into. What happens to their requests, the signal's on_loss says.",
			Queries: []query{{"sum(sluice_signal_lost{@})", "lost"}},
			Steps:   []step{{first, "green"}, {1, "red"}},
		},
		{
			Row: admin.RowOverview, Title: "Configuration", Shape: number,
			About:    "Whether the file that would be loaded at the next start is right.",
			Queries:  []query{{"min(sluice_config_last_reload_successful{@})", "configuration"}},
			Steps:    []step{{first, "red"}, {1, "green"}},
			Meanings: []meaning{{"0", "reload failed", "red"}, {"1", "in force", "green"}},
		},
		{
			Row: admin.RowOverview, Title: "Decisions", Width: 9, Height: 9, Stack: true,
			About:   "Every request gets one: it is let through, answered from a record, or refused.",
			Queries: []query{{`sum by (verdict) (rate(sluice_decisions_total{@, mode="enforce"}[$__rate_interval]))`, "{{verdict}}"}},
		},
		{
			Row: admin.RowOverview, Title: "Refused, by reason", Width: 9, Height: 9, Stack: true,
			About:   "deferred and shed: a queue is short of capacity. tenant_limit: a tenant's own rate is used up. key_…: what idempotency keys forbid. Each reason is explained in the README.",
			Queries: []query{{`sum by (reason) (rate(sluice_decisions_total{@, mode="enforce", verdict="refuse"}[$__rate_interval]))`, "{{reason}}"}},
		},
		{Row: admin.RowOverview, Title: "Runbooks", Shape: words, Width: 6, Height: 9, Text: links.String()},
	}
}

var queuePanels = []panel{
	{
		Row: admin.RowQueues, Title: "Wait and age against the objective", Width: 12, Dashed: "/objective$/",
		About: "The wait is what is predicted for work that is admitted now; the age is what the queue itself says of its oldest work, and is late by its own size. Admission keeps the wait below the dashed line.",
		Queries: []query{
			{`max by (queue) (sluice_queue_wait_seconds{@, queue=~"$queue"})`, "{{queue}} wait"},
			{`max by (queue, signal) (sluice_queue_age_seconds{@, queue=~"$queue"})`, "{{queue}} age ({{signal}})"},
			{`min by (queue) (sluice_queue_max_useful_age_seconds{@, queue=~"$queue"})`, "{{queue}} objective"},
		},
	},
	{
		Row: admin.RowQueues, Title: "Share admitted, by class", Width: 12, Share: true,
		About:   "Of newcomers: the least important class gives way first. A class at 0 is refused altogether, apart from those that come back when they were told.",
		Queries: []query{{`min by (queue, class) (sluice_share_admitted{@, queue=~"$queue"})`, "{{queue}} {{class}}"}},
	},
	{
		Row: admin.RowQueues, Title: "Time past the objective", Shape: number, Unit: "percentunit", Height: 8,
		About:   "For how much of the time shown the predicted wait was over max_useful_age.",
		Queries: []query{{`avg by (queue) (avg_over_time((max by (queue) (sluice_queue_wait_seconds{@, queue=~"$queue"} > bool sluice_queue_max_useful_age_seconds{@, queue=~"$queue"}))[$__range:$__interval]))`, "{{queue}}"}},
		Steps:   []step{{first, "green"}, {0.01, "orange"}, {0.1, "red"}},
	},
	{
		Row: admin.RowQueues, Title: "Depth", Width: 10, About: "How much work waits.",
		Queries: []query{{`max by (queue, signal) (sluice_queue_depth{@, queue=~"$queue"})`, "{{queue}} ({{signal}})"}},
	},
	{
		Row: admin.RowQueues, Title: "Completions", Width: 10, Unit: "ops", About: "What the workers get done a second. At 0 they have stopped, and the wait grows whatever is refused.",
		Queries: []query{{`max by (queue, signal) (sluice_queue_completions_per_second{@, queue=~"$queue"})`, "{{queue}} ({{signal}})"}},
	},
	{
		Row: admin.RowQueues, Title: "Promises kept", Shape: number, Share: true, Height: 8,
		About:   "Of those that came back when they were told, the share that was let in.",
		Queries: []query{{`sum(sluice_promises_kept_total{@, queue=~"$queue"}) / sum(sluice_returners_total{@, queue=~"$queue"})`, "kept"}},
		Steps:   []step{{first, "red"}, {0.9, "orange"}, {0.95, "green"}},
	},
	{
		Row: admin.RowQueues, Title: "Promises", Width: 10, About: "Refusals that said when to come back, who did, and who got in.",
		Queries: []query{
			{`sum(rate(sluice_promises_made_total{@, queue=~"$queue"}[$__rate_interval]))`, "made"},
			{`sum(rate(sluice_returners_total{@, queue=~"$queue"}[$__rate_interval]))`, "came back"},
			{`sum(rate(sluice_promises_kept_total{@, queue=~"$queue"}[$__rate_interval]))`, "kept"},
		},
	},
	{
		Row: admin.RowQueues, Title: "Classes that began or ceased to be refused", Width: 10, Unit: "short",
		About:   "Often back and forth means that a band is too narrow for the queue's ups and downs.",
		Queries: []query{{`sum by (queue) (increase(sluice_shed_transitions_total{@, queue=~"$queue"}[$__rate_interval]))`, "{{queue}}"}},
	},
	{
		Row: admin.RowQueues, Title: "Age of the last good reading", Width: 12, Unit: "s", About: "Three periods of a signal without a reading that is believed, and it counts as lost.",
		Queries: []query{{`time() - min by (queue, signal) (sluice_signal_last_success_timestamp_seconds{@, queue=~"$queue"})`, "{{queue}} ({{signal}})"}},
	},
	{
		Row: admin.RowQueues, Title: "Readings, by what they were worth", Width: 12, Unit: "ops", Stack: true, About: "sound and skewed ones are believed; the others say why not.",
		Queries: []query{{`sum by (queue, signal, result) (rate(sluice_signal_samples_total{@, queue=~"$queue"}[$__rate_interval]))`, "{{queue}} ({{signal}}) {{result}}"}},
	},
}

var classPanels = []panel{
	{
		Row: admin.RowClasses, Title: "Accepted, by class", Width: 12, Share: true,
		About: "Of the requests that could have been let through, the share that was: refusals for what a client did wrong do not count.",
		Queries: []query{{`1 - (sum by (class) (rate(sluice_decisions_total{@, mode="enforce", reason=~"` + wantOfCapacity + `"}[$__rate_interval])) or 0 * sum by (class) (rate(sluice_decisions_total{@, mode="enforce"}[$__rate_interval]))) / sum by (class) (rate(sluice_decisions_total{@, mode="enforce", reason=~"` +
			countable + `"}[$__rate_interval]))`, "{{class}}"}},
	},
	{
		Row: admin.RowClasses, Title: "Let through, by class", Width: 12, Stack: true, About: "What reaches the origin.",
		Queries: []query{{`sum by (class) (rate(sluice_decisions_total{@, mode="enforce", verdict="admit"}[$__rate_interval]))`, "{{class}}"}},
	},
	{
		Row: admin.RowClasses, Title: "Refused, by class and reason", Width: 12, Stack: true, About: "Who pays for a shortage. The most important class should not be seen here for deferred or shed.",
		Queries: []query{{`sum by (class, reason) (rate(sluice_decisions_total{@, mode="enforce", verdict="refuse"}[$__rate_interval]))`, "{{class}} {{reason}}"}},
	},
	{
		Row: admin.RowClasses, Title: "How long requests take, by class (p50, p99)", Width: 12, About: "Of requests that were let through: from their head being read to their end, the origin's time included.",
		Queries: []query{
			{quantile(0.5, "sluice_request_duration_seconds", []string{"class"}, `verdict="admit"`), "{{class}} p50"},
			{quantile(0.99, "sluice_request_duration_seconds", []string{"class"}, `verdict="admit"`), "{{class}} p99"},
		},
	},
	{
		Row: admin.RowClasses, Title: "Told to come back in", Shape: density, Width: 8, About: "Retry-After of the refusals that carry one.",
		Queries: []query{{`sum by (le) (increase(sluice_retry_after_seconds_bucket{@}[$__rate_interval]))`, "{{le}}"}},
	},
	{
		Row: admin.RowClasses, Title: "Ended, by outcome", Width: 8, Stack: true,
		About:   "answered: the origin answered. not_sent: nothing was sent to it. unknown: something was, and no complete answer came. not_tried: it was not asked.",
		Queries: []query{{`sum by (outcome) (rate(sluice_requests_completed_total{@}[$__rate_interval]))`, "{{outcome}}"}},
	},
	{
		Row: admin.RowClasses, Title: "Shadow: would have been refused", Width: 8, Stack: true, About: "By what is in shadow mode. These requests were let pass.",
		Queries: []query{{`sum by (route, class, reason) (rate(sluice_decisions_total{@, mode="shadow"}[$__rate_interval]))`, "{{route}} {{class}} {{reason}}"}},
	},
}

var tenantPanels = []panel{
	{
		Row: admin.RowTenants, Title: "Busiest tenants", Width: 12, Stack: true, About: "The ten that ask for most. Those without a label of their own are other.",
		Queries: []query{{`topk(10, sum by (tenant) (rate(sluice_tenant_decisions_total{@}[$__rate_interval])))`, "{{tenant}}"}},
	},
	{
		Row: admin.RowTenants, Title: "Refused, by tenant", Width: 12, Stack: true, About: "The ten that are refused most.",
		Queries: []query{{`topk(10, sum by (tenant) (rate(sluice_tenant_decisions_total{@, verdict="refuse"}[$__rate_interval])))`, "{{tenant}}"}},
	},
	{
		Row: admin.RowTenants, Title: "Tenants", Shape: rowsOf, Width: 12, Unit: "reqps", About: "Requests a second, by what became of them.",
		Queries: []query{
			{`sum by (tenant) (rate(sluice_tenant_decisions_total{@}[$__rate_interval]))`, ""},
			{`sum by (tenant) (rate(sluice_tenant_decisions_total{@, verdict="admit"}[$__rate_interval]))`, ""},
			{`sum by (tenant) (rate(sluice_tenant_decisions_total{@, verdict="refuse"}[$__rate_interval]))`, ""},
		},
		Columns: [][2]string{{"tenant", "Tenant"}, {"Value #A", "Asked"}, {"Value #B", "Let through"}, {"Value #C", "Refused"}},
	},
	{
		Row: admin.RowTenants, Title: "Limits", Width: 12, Stack: true, About: "Requests checked against a tenant limit. shadow: would have been refused by a limit that is not enforced.",
		Queries: []query{{`sum by (limit, result, mode) (rate(sluice_rate_limit_checks_total{@}[$__rate_interval]))`, "{{limit}} {{result}} ({{mode}})"}},
	},
	{
		Row: admin.RowTenants, Title: "Without a label of their own", Width: 12, Height: 6, About: "If this is much, raise metrics.tenants.",
		Queries: []query{{`sum(rate(sluice_tenant_label_overflow_total{@}[$__rate_interval]))`, "other"}},
	},
}

var keyPanels = []panel{
	{
		Row: admin.RowIdempotency, Title: "Keyed requests", Width: 12, Stack: true, About: "fresh: executed. replayed: answered from the record. reused: the key belongs to another request. bypassed: executed without protection.",
		Queries: []query{{`sum by (result) (rate(sluice_idempotency_checks_total{@}[$__rate_interval]))`, "{{result}}"}},
	},
	{
		Row: admin.RowIdempotency, Title: "Put in doubt", Width: 6, Unit: "short", About: "Keys whose request may or may not have taken effect. Each is for a person to resolve.",
		Queries: []query{{`sum by (cause) (increase(sluice_idempotency_in_doubt_total{@}[$__rate_interval]))`, "{{cause}}"}},
		Steps:   []step{{1, "red"}},
	},
	{
		Row: admin.RowIdempotency, Title: "Under way", Width: 6, About: "Records being executed, and repeats that wait for them.",
		Queries: []query{{`sum(sluice_idempotency_running{@})`, "running"}, {`sum(sluice_idempotency_waiting{@})`, "waiting"}},
	},
	{
		Row: admin.RowIdempotency, Title: "Store: operations", Width: 8, Unit: "ops", About: "What is asked of the store. A new key is a claim and a settle.",
		Queries: []query{{`sum by (op) (rate(sluice_store_calls_total{@}[$__rate_interval]))`, "{{op}}"}},
	},
	{
		Row: admin.RowIdempotency, Title: "Store: failures", Width: 8, Unit: "ops", About: "Operations that failed. If all do, the store is away.",
		Queries: []query{{`sum by (op) (rate(sluice_store_errors_total{@}[$__rate_interval]))`, "{{op}}"}},
	},
	{
		Row: admin.RowIdempotency, Title: "Store: time of an operation", Width: 8, Unit: "s", About: "On average.",
		Queries: []query{{`sum by (op) (rate(sluice_store_time_seconds_total{@}[$__rate_interval])) / sum by (op) (rate(sluice_store_calls_total{@}[$__rate_interval]))`, "{{op}}"}},
	},
	{
		Row: admin.RowIdempotency, Title: "Answered from memory", Width: 8, About: "Repeats that cost neither the store nor the origin anything.",
		Queries: []query{{`sum(rate(sluice_idempotency_cache_hits_total{@}[$__rate_interval]))`, "from memory"}},
	},
	{
		Row: admin.RowIdempotency, Title: "Answers in memory", Width: 8, About: "Bounded by store.cache.",
		Queries: []query{{`sum by (instance) (sluice_idempotency_cache_bytes{@})`, "{{instance}}"}},
	},
	{
		Row: admin.RowIdempotency, Title: "Out of the ordinary", Width: 8, Unit: "short", About: "not stored: repeats will not be recognised. without body: larger than max_replay. taken over: from a gateway that fell silent.",
		Queries: []query{
			{`sum(increase(sluice_idempotency_not_stored_total{@}[$__rate_interval]))`, "not stored"},
			{`sum(increase(sluice_idempotency_tombstones_total{@}[$__rate_interval]))`, "without body"},
			{`sum(increase(sluice_idempotency_taken_over_total{@}[$__rate_interval]))`, "taken over"},
		},
	},
}

var originPanels = []panel{
	{
		Row: admin.RowOrigin, Title: "Answers, by status", Width: 8, Stack: true, Unit: "reqps", About: "none: no complete answer came.",
		Queries: []query{{`sum by (code) (rate(sluice_origin_duration_seconds_count{@}[$__rate_interval]))`, "{{code}}"}},
	},
	{
		Row: admin.RowOrigin, Title: "Time of the origin", Width: 8, About: "From the request having been written to its answer.",
		Queries: []query{
			{quantile(0.5, "sluice_origin_duration_seconds", nil, ""), "p50"},
			{quantile(0.9, "sluice_origin_duration_seconds", nil, ""), "p90"},
			{quantile(0.99, "sluice_origin_duration_seconds", nil, ""), "p99"},
		},
	},
	{
		Row: admin.RowOrigin, Title: "Time of the origin, all of it", Shape: density, Width: 8, About: "Two bands mean two kinds of requests, or one address that is slow.",
		Queries: []query{{`sum by (le) (increase(sluice_origin_duration_seconds_bucket{@}[$__rate_interval]))`, "{{le}}"}},
	},
	{
		Row: admin.RowOrigin, Title: "Failed at the origin, by reason", Width: 8, Stack: true, About: "Requests that were let through and came to nothing. origin_unreachable: nothing was sent. The others may have taken effect.",
		Queries: []query{{`sum by (reason) (rate(sluice_request_failures_total{@}[$__rate_interval]))`, "{{reason}}"}},
	},
	{
		Row: admin.RowOrigin, Title: "Places at the origin", Width: 8, Dashed: "/ of$/", About: "How many requests are at the origin at once, of how many may be (max_in_flight). Empty where there is no such bound.",
		Queries: []query{
			{`sum by (places) (sluice_origin_places_taken{@})`, "{{places}} taken"},
			{`sum by (places) (sluice_origin_places{@})`, "{{places}} of"},
		},
	},
	{
		Row: admin.RowOrigin, Title: "Waiting for a place, by class", Width: 8, About: "For at most the class's max_wait; then origin_full.",
		Queries: []query{{`sum by (places, class) (sluice_requests_waiting{@})`, "{{places}} {{class}}"}},
	},
}

var gatewayPanels = []panel{
	{
		Row: admin.RowGateway, Title: "Time in the gateway itself (p50, p99)", Width: 12, About: "By stage, without the time of the origin. Waiting for a place at the origin counts as decide.",
		Queries: []query{
			{quantile(0.5, "sluice_gateway_overhead_seconds", []string{"stage"}, ""), "{{stage}} p50"},
			{quantile(0.99, "sluice_gateway_overhead_seconds", []string{"stage"}, ""), "{{stage}} p99"},
		},
	},
	{
		Row: admin.RowGateway, Title: "CPU", Width: 6, Unit: "short", About: "Processors in use.",
		Queries: []query{{`rate(process_cpu_seconds_total{@}[$__rate_interval])`, "{{instance}}"}},
	},
	{
		Row: admin.RowGateway, Title: "Memory", Width: 6, Unit: "bytes", About: "Resident memory of the process.",
		Queries: []query{{`process_resident_memory_bytes{@}`, "{{instance}}"}},
	},
	{
		Row: admin.RowGateway, Title: "Requests under way", Width: 6, About: "Received and not yet ended.",
		Queries: []query{{`sum by (instance) (sluice_requests_in_flight{@})`, "{{instance}}"}},
	},
	{
		Row: admin.RowGateway, Title: "Client connections", Width: 6, About: "Bounded by limits.max_connections.",
		Queries: []query{{`sum by (instance) (sluice_connections_open{@})`, "{{instance}}"}},
	},
	{
		Row: admin.RowGateway, Title: "Connections turned away", Width: 6, Unit: "cps", About: "As many as allowed were open.",
		Queries: []query{{`sum by (instance) (rate(sluice_connections_refused_total{@}[$__rate_interval]))`, "{{instance}}"}},
	},
	{
		Row: admin.RowGateway, Title: "Decision log", Width: 6, Unit: "ops", About: "dropped and failed are gaps; sampled_out is the cap doing its work.",
		Queries: []query{{`sum by (result) (rate(sluice_decision_log_records_total{@}[$__rate_interval]))`, "{{result}}"}},
	},
	{
		Row: admin.RowGateway, Title: "Attempts to load the configuration", Width: 6, Unit: "short", About: "Since each gateway's start, by what caused them.",
		Queries: []query{{`sum by (trigger, result) (sluice_config_reloads_total{@})`, "{{trigger}} {{result}}"}},
	},
	{
		Row: admin.RowGateway, Title: "Policies and versions", Shape: rowsOf, Width: 12, Unit: "s", About: "Gateways in front of one API should run the same, and since about the same time.",
		Queries: []query{
			{`max by (job, instance, hash) (sluice_config_info{@})`, ""},
			{`max by (job, instance, version, go_version) (sluice_build_info{@})`, ""},
			{`time() - max by (job, instance) (sluice_config_last_reload_success_timestamp_seconds{@})`, ""},
		},
		Columns: [][2]string{{"instance", "Gateway"}, {"job", "Job"}, {"hash", "Policy"}, {"version", "Version"}, {"go_version", "Go"}, {"Value #C", "In force for"}},
	},
	{
		Row: admin.RowGateway, Title: "Certificates expire in", Shape: number, Width: 6, Height: 8, Unit: "s", About: "By the configuration's path to the certificate. Empty without TLS.",
		Queries: []query{{`min by (certificate) (sluice_certificate_expiry_timestamp_seconds{@}) - time()`, "{{certificate}}"}},
		Steps:   []step{{first, "red"}, {24 * 3600, "orange"}, {14 * 24 * 3600, "green"}},
	},
}

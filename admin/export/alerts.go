package export

import "fmt"

// Severities: somebody is woken, or finds it in the morning.
const (
	page   = "page"
	ticket = "ticket"
)

// alert is one rule. Several may have one name, where they tell the same thing
// of different speed; a name has one runbook.
type alert struct {
	Name     string
	Expr     string
	For      string
	Severity string
	Labels   [][2]string // besides severity
	Summary  string
	About    string
}

// record is a recording rule.
type record struct{ Name, Expr string }

// burn is one pair of windows of an objective's alert.
type burn struct {
	rate        float64 // times the sustainable one
	long, short string
	wait        string
	severity    string
}

var burns = []burn{
	{fastest, "1h", "5m", "2m", page},
	{6, "6h", "30m", "15m", page},
	{1, "3d", "6h", "1h", ticket},
}

// fewest is how many refusals within the long window are worth an alert: a
// single one among a handful of requests is no trend.
const fewest = 10

// scope are the labels by which gateways in front of one API belong together.
const scope = "namespace, job"

// windows lists every window of the burns once, shortest first.
var windows = []string{"5m", "30m", "1h", "6h", "3d"}

// refusalsFor are the refusals of an objective, a second over a window.
func refusalsFor(window string) string {
	return `sluice_decisions_total{mode="enforce", reason=~"` + wantOfCapacity + `"}[` + window + `]`
}

// records are what the alerts compute over and over.
func records() (all []record) {
	for _, w := range windows {
		all = append(all, record{"sluice:acceptance_errors:ratio_rate" + w, fmt.Sprintf(
			`sum by (%[1]s, class) (rate(%[2]s))
/
sum by (%[1]s, class) (rate(sluice_decisions_total{mode="enforce", reason=~"%[3]s"}[%[4]s]))`, scope, refusalsFor(w), countable, w)})
	}
	return append(all, record{"sluice:queue_late:bool", `max by (` + scope + `, queue) (sluice_queue_wait_seconds > bool sluice_queue_max_useful_age_seconds)`})
}

// alerts are all of them, in the order in which they matter.
func alerts(o Options) (all []alert) {
	for _, b := range burns {
		all = append(all, alert{
			Name: "SluiceAcceptanceBurn", For: b.wait, Severity: b.severity, Labels: [][2]string{{"long_window", b.long}},
			Expr: fmt.Sprintf(`(
  sluice:acceptance_errors:ratio_rate%[1]s > %[3]g * %[4]s
  and
  sluice:acceptance_errors:ratio_rate%[2]s > %[3]g * %[4]s
)
and on (%[5]s, class) max by (%[5]s, class) (sluice_class_rank == 1)
and on (%[5]s, class) sum by (%[5]s, class) (increase(%[6]s)) >= %[7]d`,
				b.long, b.short, b.rate, budget(o.Acceptance), scope, refusalsFor(b.long), fewest),
			Summary: "The most important class is refused",
			About: `Of the requests of class {{ $labels.class }}, {{ $value | humanizePercentage }} were refused for want of capacity within ` + b.long +
				`. The objective is to accept ` + percent(o.Acceptance) + `.`,
		})
	}
	for _, b := range burns {
		all = append(all, alert{
			Name: "SluiceCompletionBurn", For: b.wait, Severity: b.severity, Labels: [][2]string{{"long_window", b.long}},
			Expr: fmt.Sprintf(`avg_over_time(sluice:queue_late:bool[%[1]s]) > %[3]g * %[4]s
and
avg_over_time(sluice:queue_late:bool[%[2]s]) > %[3]g * %[4]s`, b.long, b.short, b.rate, budget(o.Completion)),
			Summary: "Work in queue {{ $labels.queue }} will be done too late",
			About: `For {{ $value | humanizePercentage }} of the last ` + b.long + `, work that was let into queue {{ $labels.queue }} was predicted to wait longer than its max_useful_age. The objective is ` +
				percent(o.Completion) + ` of the time within it.`,
		})
	}
	return append(all,
		alert{
			Name: "SluiceSignalLost", For: "2m", Severity: page,
			Expr:    `sluice_signal_lost == 1`,
			Summary: "The gateway cannot see into queue {{ $labels.queue }}",
			About:   `No reading of signal {{ $labels.signal }} was believed for three periods. Requests fare as the signal's on_loss says.`,
		},
		alert{
			Name: "SluiceSheddingWithoutEffect", For: "10m", Severity: ticket,
			Expr: `min by (` + scope + `, instance, queue) (max_over_time(sluice_share_admitted[10m])) < 0.1
and on (` + scope + `, instance, queue) (
  avg_over_time(sluice_queue_wait_seconds[5m]) >= avg_over_time(sluice_queue_wait_seconds[5m] offset 10m)
)
and on (` + scope + `, instance, queue) (
  avg_over_time(sluice_queue_wait_seconds[5m]) > 0.5 * sluice_queue_max_useful_age_seconds
)`,
			Summary: "Refusing work does not shorten queue {{ $labels.queue }}",
			About:   `A class has been refused almost entirely for ten minutes, and the predicted wait of queue {{ $labels.queue }} is over half of its objective and does not fall.`,
		},
		alert{
			Name: "SluiceOriginFailing", For: "5m", Severity: page,
			Expr: fmt.Sprintf(`sum by (%[1]s) (
  rate(sluice_request_failures_total{reason=~"origin_.*"}[5m])
  or
  rate(sluice_origin_duration_seconds_count{code="5xx"}[5m])
)
/
sum by (%[1]s) (rate(sluice_requests_completed_total{outcome!="not_tried"}[5m])) > 0.05`, scope),
			Summary: "The origin fails",
			About:   `{{ $value | humanizePercentage }} of the requests that were let through failed at the origin: no connection, no complete answer, or a status of 5xx.`,
		},
		alert{
			Name: "SluiceStoreAway", For: "2m", Severity: page,
			Expr: fmt.Sprintf(`sum by (%[1]s, instance) (rate(sluice_store_errors_total[5m]))
/
sum by (%[1]s, instance) (rate(sluice_store_calls_total[5m])) > 0.5`, scope),
			Summary: "The store of idempotency records is away",
			About:   `{{ $value | humanizePercentage }} of what {{ $labels.instance }} asks of the store fails. Requests with keys fare as their route's on_store_down says.`,
		},
		alert{
			Name: "SluiceStoreFailingOpen", For: "5m", Severity: page,
			Expr:    `sum by (` + scope + `, instance) (rate(sluice_idempotency_checks_total{result="bypassed"}[5m])) > 0`,
			Summary: "Requests with keys are executed without protection",
			About:   `{{ $labels.instance }} passes {{ $value | humanize }} requests a second whose keys cannot be checked, as on_store_down: open says. A repeat among them is executed twice.`,
		},
		alert{
			Name: "SluiceKeysInDoubt", For: "0s", Severity: ticket,
			Expr:    `sum by (` + scope + `) (increase(sluice_idempotency_in_doubt_total[1h])) > 5`,
			Summary: "Keys are put in doubt",
			About:   `{{ $value | humanize }} records were put in doubt within the hour: nobody knows whether their requests took effect. Each blocks its key until a person resolves it.`,
		},
		alert{
			Name: "SluiceReloadFailed", For: "5m", Severity: ticket,
			Expr:    `sluice_config_last_reload_successful == 0`,
			Summary: "The configuration file of {{ $labels.instance }} is wrong",
			About:   `The last attempt to load the configuration failed. What ran before still runs; a restart would not come up.`,
		},
		alert{
			Name: "SluiceDecisionLogDrops", For: "0s", Severity: ticket,
			Expr:    `sum by (` + scope + `, instance, result) (increase(sluice_decision_log_records_total{result=~"dropped|failed"}[15m])) > 0`,
			Summary: "The decision log of {{ $labels.instance }} has gaps",
			About:   `{{ $value | humanize }} records are {{ $labels.result }} within 15 minutes. Metrics are complete all the same.`,
		},
		alert{
			Name: "SluiceCertificateExpiring", For: "1h", Severity: ticket,
			Expr:    `sluice_certificate_expiry_timestamp_seconds - time() < 14 * 24 * 3600`,
			Summary: "The certificate in {{ $labels.certificate }} expires",
			About:   `{{ $labels.instance }} shows a certificate that is good for another {{ $value | humanizeDuration }}.`,
		},
		alert{
			Name: "SluiceCertificateExpiring", For: "5m", Severity: page,
			Expr:    `sluice_certificate_expiry_timestamp_seconds - time() < 24 * 3600`,
			Summary: "The certificate in {{ $labels.certificate }} expires within a day",
			About:   `{{ $labels.instance }} shows a certificate that is good for another {{ $value | humanizeDuration }}. TLS connections fail from then on.`,
		},
	)
}

// alertNames lists the alerts, each once: those that have a runbook.
func alertNames(o Options) (all []string) {
	for _, a := range alerts(o) {
		if len(all) == 0 || all[len(all)-1] != a.Name {
			all = append(all, a.Name)
		}
	}
	return all
}

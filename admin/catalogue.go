package admin

// Kind is what a metric measures.
type Kind string

// The kinds of metric, as in the Prometheus exposition format.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// MetricInfo describes one metric. Registration, documentation, dashboards and
// alerts all come from these descriptions.
type MetricInfo struct {
	Name   string // with the prefix sluice_
	Kind   Kind
	Unit   string // of the value: seconds, bytes, "" for counts and flags
	Labels []string
	Help   string
}

// The metrics, as indexes into the catalogue.
const (
	mRequestsReceived = iota
	mRequestsInFlight
	mDecisions
	mRequestsCompleted
	mRequestFailures
	mRequestDuration
	mGatewayOverhead
	mOriginDuration
	mRateLimitChecks
	mRetryAfter
	mTenantDecisions
	mTenantOverflow
	mDecisionLogRecords
	mReloadSuccessful
	mReloadSuccessTime
	mConfigInfo
	mReloads
	mBuildInfo

	metricCount
)

var catalogue = [metricCount]MetricInfo{
	mRequestsReceived: {"sluice_requests_received_total", Counter, "", nil,
		"Requests received. Equals the sum of sluice_decisions_total{mode=\"enforce\"} plus sluice_requests_in_flight."},
	mRequestsInFlight: {"sluice_requests_in_flight", Gauge, "", nil,
		"Requests received and not yet ended."},
	mDecisions: {"sluice_decisions_total", Counter, "", []string{"route", "class", "verdict", "reason", "mode"},
		"Decisions, one a request under mode=\"enforce\". Under mode=\"shadow\": refusals that a policy in shadow mode would have made; these requests are counted under \"enforce\" too."},
	mRequestsCompleted: {"sluice_requests_completed_total", Counter, "", []string{"route", "class", "outcome"},
		"Requests ended, by what happened at the origin: answered, not_sent, unknown, or not_tried where the request was not forwarded."},
	mRequestFailures: {"sluice_request_failures_total", Counter, "", []string{"route", "class", "reason"},
		"Requests that were admitted and then failed, by reason."},
	mRequestDuration: {"sluice_request_duration_seconds", Histogram, "seconds", []string{"route", "class", "verdict", "outcome"},
		"Time from the request's head being read to its end."},
	mGatewayOverhead: {"sluice_gateway_overhead_seconds", Histogram, "seconds", []string{"stage"},
		"Time spent in the gateway itself. decide: until the decision; send: from there until the request was written to the origin; answer: from the origin's answer, or from the decision where nothing was forwarded, to the end."},
	mOriginDuration: {"sluice_origin_duration_seconds", Histogram, "seconds", []string{"code"},
		"Time from the request having been written to the origin until its answer was read, by the answer's status class (2xx and so on); none: no complete answer came."},
	mRateLimitChecks: {"sluice_rate_limit_checks_total", Counter, "", []string{"limit", "result", "mode"},
		"Requests checked against a tenant limit: result is allowed or refused. Under mode=\"shadow\": refused by a limit that is not enforced."},
	mRetryAfter: {"sluice_retry_after_seconds", Histogram, "seconds", []string{"reason"},
		"When refused requests were told to come back."},
	mTenantDecisions: {"sluice_tenant_decisions_total", Counter, "", []string{"tenant", "verdict"},
		"Decisions of the tenants that are always shown and of the busiest ones. Everybody else is \"other\"; \"unidentified\" are requests without a tenant. A tenant that stops being among the busiest takes its count with it once its place is needed."},
	mTenantOverflow: {"sluice_tenant_label_overflow_total", Counter, "", nil,
		"Decisions counted under tenant=\"other\"."},
	mDecisionLogRecords: {"sluice_decision_log_records_total", Counter, "", []string{"result"},
		"Records of the decision log. written: to its output; sampled_out: over the cap per route and reason; dropped: the output was too slow; failed: the output returned an error."},
	mReloadSuccessful: {"sluice_config_last_reload_successful", Gauge, "", nil,
		"1 if the last attempt to load the configuration succeeded, 0 if it failed and the previous one still runs."},
	mReloadSuccessTime: {"sluice_config_last_reload_success_timestamp_seconds", Gauge, "seconds", nil,
		"When the running configuration was loaded, in seconds since 1970."},
	mConfigInfo: {"sluice_config_info", Gauge, "", []string{"hash"},
		"Always 1, with the hash of the running configuration."},
	mReloads: {"sluice_config_reloads_total", Counter, "", []string{"trigger", "result"},
		"Attempts to load the configuration, by what caused them and whether they succeeded (ok) or changed nothing (failed)."},
	mBuildInfo: {"sluice_build_info", Gauge, "", []string{"version", "go_version"},
		"Always 1, with the version of the gateway."},
}

// Catalogue returns the description of every metric, in documentation order.
// Go runtime and process metrics (go_*, process_*) come on top.
func Catalogue() []MetricInfo { return append([]MetricInfo(nil), catalogue[:]...) }

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

	// From here on by a [Source].
	mConnectionsOpen
	mConnectionsRefused
	mQueueWait
	mQueueMaxAge
	mQueueAge
	mQueueDepth
	mQueueRate
	mShareAdmitted
	mShedTransitions
	mSignalLost
	mSignalLastSuccess
	mSignalSamples
	mPromisesMade
	mPromisesKept
	mReturners
	mOriginPlaces
	mOriginPlacesTaken
	mRequestsWaiting
	mKeyChecks
	mKeysRunning
	mKeysWaiting
	mKeysInDoubt
	mKeysTakenOver
	mKeysNotStored
	mKeyTombstones
	mKeyCacheHits
	mKeyCacheBytes
	mStoreCalls
	mStoreErrors
	mStoreTime

	metricCount

	firstOfSources = mConnectionsOpen
)

// OfSources lists the metrics that are not counted here: those that other parts
// emit through a [Source].
func OfSources() []MetricInfo { return Catalogue()[firstOfSources:] }

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
	mConnectionsOpen: {"sluice_connections_open", Gauge, "", nil,
		"Client connections that are open."},
	mConnectionsRefused: {"sluice_connections_refused_total", Counter, "", nil,
		"Client connections refused because as many as allowed were open."},
	mQueueWait: {"sluice_queue_wait_seconds", Gauge, "seconds", []string{"queue"},
		"How long work admitted now is predicted to wait. Absent while that is not known."},
	mQueueMaxAge: {"sluice_queue_max_useful_age_seconds", Gauge, "seconds", []string{"queue"},
		"The objective: how long work may wait before it is no longer worth doing."},
	mQueueAge: {"sluice_queue_age_seconds", Gauge, "seconds", []string{"queue", "signal"},
		"Age of the queue's oldest waiting work, as last read. Absent while the source does not tell."},
	mQueueDepth: {"sluice_queue_depth", Gauge, "", []string{"queue", "signal"},
		"How much work waits, as last read. Absent while the source does not tell."},
	mQueueRate: {"sluice_queue_completions_per_second", Gauge, "", []string{"queue", "signal"},
		"Completions per second, as measured; 0 while not known."},
	mShareAdmitted: {"sluice_share_admitted", Gauge, "", []string{"queue", "class"},
		"Share of the class's newcomers that the queue has room for, from 0 to 1."},
	mShedTransitions: {"sluice_shed_transitions_total", Counter, "", []string{"queue"},
		"How often a class began or ceased to be refused."},
	mSignalLost: {"sluice_signal_lost", Gauge, "", []string{"queue", "signal"},
		"1 while no reading of the signal was believed for three periods, and its on_loss holds."},
	mSignalLastSuccess: {"sluice_signal_last_success_timestamp_seconds", Gauge, "seconds", []string{"queue", "signal"},
		"When the last reading that was believed arrived, in seconds since 1970."},
	mSignalSamples: {"sluice_signal_samples_total", Counter, "", []string{"queue", "signal", "result"},
		"Readings of the signal: sound and skewed ones were believed, all others say why not."},
	mPromisesMade: {"sluice_promises_made_total", Counter, "", []string{"queue", "class"},
		"Refusals that promised a time at which to come back."},
	mPromisesKept: {"sluice_promises_kept_total", Counter, "", []string{"queue", "class"},
		"Requests admitted that came back when they were told."},
	mReturners: {"sluice_returners_total", Counter, "", []string{"queue", "class"},
		"Requests that came back when they were told."},
	mOriginPlaces: {"sluice_origin_places", Gauge, "", []string{"places"},
		"How many requests may be at the origin at once: of all routes, or of the route with places of its own."},
	mOriginPlacesTaken: {"sluice_origin_places_taken", Gauge, "", []string{"places"},
		"How many of these places are taken."},
	mRequestsWaiting: {"sluice_requests_waiting", Gauge, "", []string{"places", "class"},
		"Requests that wait for a place at the origin."},
	mKeyChecks: {"sluice_idempotency_checks_total", Counter, "", []string{"result"},
		"Requests with an idempotency key, by what became of them: the values of Idempotency-Status, and store_unavailable."},
	mKeysRunning: {"sluice_idempotency_running", Gauge, "", nil,
		"Records that this gateway is asking about or executing the request of."},
	mKeysWaiting: {"sluice_idempotency_waiting", Gauge, "", nil,
		"Repetitions that wait for the first request to end."},
	mKeysInDoubt: {"sluice_idempotency_in_doubt_total", Counter, "", []string{"cause"},
		"Records put in doubt. outcome: the request's own gateway does not know what came of it; lapsed: that gateway has been silent for too long."},
	mKeysTakenOver: {"sluice_idempotency_taken_over_total", Counter, "", nil,
		"Records taken over from a gateway that has been silent for too long, under on_unknown: release."},
	mKeysNotStored: {"sluice_idempotency_not_stored_total", Counter, "", nil,
		"Answers that could not be stored, or not in time."},
	mKeyTombstones: {"sluice_idempotency_tombstones_total", Counter, "", nil,
		"Records kept without their body, because it was too large."},
	mKeyCacheHits: {"sluice_idempotency_cache_hits_total", Counter, "", nil,
		"Requests answered from memory alone."},
	mKeyCacheBytes: {"sluice_idempotency_cache_bytes", Gauge, "bytes", nil,
		"What the answers in memory hold."},
	mStoreCalls: {"sluice_store_calls_total", Counter, "", []string{"op"},
		"Operations of the store of idempotency records."},
	mStoreErrors: {"sluice_store_errors_total", Counter, "", []string{"op"},
		"Operations of the store that failed."},
	mStoreTime: {"sluice_store_time_seconds_total", Counter, "seconds", []string{"op"},
		"Time spent in operations of the store."},
}

// Catalogue returns the description of every metric, in documentation order.
// Go runtime and process metrics (go_*, process_*) come on top.
func Catalogue() []MetricInfo { return append([]MetricInfo(nil), catalogue[:]...) }

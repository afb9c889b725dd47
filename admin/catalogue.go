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
	Row    Row    // of the dashboard that shows it; "" none
	Help   string // what it says
	Use    string // what to watch it for
}

// Row is a row of the dashboard: what one looks at together.
type Row string

// The rows, in the dashboard's order.
const (
	RowOverview    Row = "Overview"
	RowQueues      Row = "Queues"
	RowClasses     Row = "Classes"
	RowTenants     Row = "Tenants"
	RowIdempotency Row = "Idempotency"
	RowOrigin      Row = "Origin"
	RowGateway     Row = "Gateway"
	RowCandidate   Row = "Candidate" // a policy tried beside the live one
)

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
	mCandidateDecisions
	mCandidateReclassified
	mDecisionLogRecords
	mReloadSuccessful
	mReloadSuccessTime
	mConfigInfo
	mReloads
	mBuildInfo
	mClassRank

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
	mCertificateExpiry
	mCandidateInfo
	mCandidateAsked
	mCandidateLoaded
	mCandidatePanics

	metricCount

	firstOfSources = mConnectionsOpen
)

// OfSources lists the metrics that are not counted here: those that other parts
// emit through a [Source].
func OfSources() []MetricInfo { return Catalogue()[firstOfSources:] }

var catalogue = [metricCount]MetricInfo{
	mRequestsReceived: {"sluice_requests_received_total", Counter, "", nil, RowOverview,
		"Requests received. Equals the sum of sluice_decisions_total{mode=\"enforce\"} plus sluice_requests_in_flight.",
		"the load: what clients ask for"},
	mRequestsInFlight: {"sluice_requests_in_flight", Gauge, "", nil, RowGateway,
		"Requests received and not yet ended.",
		"requests that pile up: growing without end, the origin is slow"},
	mDecisions: {"sluice_decisions_total", Counter, "", []string{"route", "class", "verdict", "reason", "mode"}, RowOverview,
		"Decisions, one a request under mode=\"enforce\". Under mode=\"shadow\": refusals that a policy in shadow mode would have made; these requests are counted under \"enforce\" too.",
		"what is refused, whom it hits and why"},
	mRequestsCompleted: {"sluice_requests_completed_total", Counter, "", []string{"route", "class", "outcome"}, RowClasses,
		"Requests ended, by what happened at the origin: answered, not_sent, unknown, or not_tried where the request was not forwarded.",
		"what became of requests; unknown is what may have taken effect"},
	mRequestFailures: {"sluice_request_failures_total", Counter, "", []string{"route", "class", "reason"}, RowOrigin,
		"Requests that were admitted and then failed, by reason.",
		"what the origin failed at"},
	mRequestDuration: {"sluice_request_duration_seconds", Histogram, "seconds", []string{"route", "class", "verdict", "outcome"}, RowClasses,
		"Time from the request's head being read to its end.",
		"how long clients wait, by class"},
	mGatewayOverhead: {"sluice_gateway_overhead_seconds", Histogram, "seconds", []string{"stage"}, RowGateway,
		"Time spent in the gateway itself. decide: until the decision; send: from there until the request was written to the origin; answer: from the origin's answer, or from the decision where nothing was forwarded, to the end.",
		"whether the gateway itself is slow"},
	mOriginDuration: {"sluice_origin_duration_seconds", Histogram, "seconds", []string{"code"}, RowOrigin,
		"Time from the request having been written to the origin until its answer was read, by the answer's status class (2xx and so on); none: no complete answer came.",
		"whether the origin is slow, and how it answers"},
	mRateLimitChecks: {"sluice_rate_limit_checks_total", Counter, "", []string{"limit", "result", "mode"}, RowTenants,
		"Requests checked against a tenant limit: result is allowed or refused. Under mode=\"shadow\": refused by a limit that is not enforced.",
		"limits that are too tight, before and after they are enforced"},
	mRetryAfter: {"sluice_retry_after_seconds", Histogram, "seconds", []string{"reason"}, RowClasses,
		"When refused requests were told to come back.",
		"how long refused clients are sent away"},
	mTenantDecisions: {"sluice_tenant_decisions_total", Counter, "", []string{"tenant", "verdict"}, RowTenants,
		"Decisions of the tenants that are always shown and of the busiest ones. Everybody else is \"other\"; \"unidentified\" are requests without a tenant. A tenant that stops being among the busiest takes its count with it once its place is needed.",
		"who asks for most, and who is refused"},
	mTenantOverflow: {"sluice_tenant_label_overflow_total", Counter, "", nil, RowTenants,
		"Decisions counted under tenant=\"other\".",
		"how much the tenants with a label of their own do not tell"},
	mCandidateDecisions: {"sluice_candidate_decisions_total", Counter, "", []string{"route", "class", "live", "candidate", "reason", "differs"}, RowCandidate,
		"Requests that a candidate policy was asked about, by route and class under the policy in force, and by the verdicts of both. reason is the candidate's where it refuses, and that of the policy in force where only that does. differs is yes where verdict or reason do.",
		"what would change if the candidate were in force"},
	mCandidateReclassified: {"sluice_candidate_reclassified_total", Counter, "", []string{"route", "class"}, RowCandidate,
		"Requests to which a candidate policy gives another class, by route and class under the policy in force.",
		"rules of the candidate that take in more than was meant"},
	mDecisionLogRecords: {"sluice_decision_log_records_total", Counter, "", []string{"result"}, RowGateway,
		"Records of the decision log. written: to its output; sampled_out: over the cap per route and reason; dropped: the output was too slow; failed: the output returned an error.",
		"whether the decision log is complete"},
	mReloadSuccessful: {"sluice_config_last_reload_successful", Gauge, "", nil, RowOverview,
		"1 if the last attempt to load the configuration succeeded, 0 if it failed and the previous one still runs.",
		"a file that is wrong and waits for its next restart"},
	mReloadSuccessTime: {"sluice_config_last_reload_success_timestamp_seconds", Gauge, "seconds", nil, RowGateway,
		"When the running configuration was loaded, in seconds since 1970.",
		"when the policy changed, beside what changed with it"},
	mConfigInfo: {"sluice_config_info", Gauge, "", []string{"hash"}, RowGateway,
		"Always 1, with the hash of the running configuration.",
		"gateways that do not run the same policy"},
	mReloads: {"sluice_config_reloads_total", Counter, "", []string{"trigger", "result"}, RowGateway,
		"Attempts to load the configuration, by what caused them and whether they succeeded (ok) or changed nothing (failed).",
		"who changes the policy, and how often that fails"},
	mBuildInfo: {"sluice_build_info", Gauge, "", []string{"version", "go_version"}, RowGateway,
		"Always 1, with the version of the gateway.",
		"gateways that do not run the same version"},
	mClassRank: {"sluice_class_rank", Gauge, "", []string{"class"}, RowOverview,
		"Place of the class in the running configuration: 1 is the most important one.",
		"telling the most important class apart, whatever it is called"},
	mConnectionsOpen: {"sluice_connections_open", Gauge, "", nil, RowGateway,
		"Client connections that are open.",
		"clients that stay connected"},
	mConnectionsRefused: {"sluice_connections_refused_total", Counter, "", nil, RowGateway,
		"Client connections refused because as many as allowed were open.",
		"limits.max_connections being too low, or an attack"},
	mQueueWait: {"sluice_queue_wait_seconds", Gauge, "seconds", []string{"queue"}, RowQueues,
		"How long work admitted now is predicted to wait. Absent while that is not known.",
		"how far the queue is from refusing everything"},
	mQueueMaxAge: {"sluice_queue_max_useful_age_seconds", Gauge, "seconds", []string{"queue"}, RowQueues,
		"The objective: how long work may wait before it is no longer worth doing.",
		"the line that the wait must not cross"},
	mQueueAge: {"sluice_queue_age_seconds", Gauge, "seconds", []string{"queue", "signal"}, RowQueues,
		"Age of the queue's oldest waiting work, as last read. Absent while the source does not tell.",
		"what the queue itself says"},
	mQueueDepth: {"sluice_queue_depth", Gauge, "", []string{"queue", "signal"}, RowQueues,
		"How much work waits, as last read. Absent while the source does not tell.",
		"how much waits"},
	mQueueRate: {"sluice_queue_completions_per_second", Gauge, "", []string{"queue", "signal"}, RowQueues,
		"Completions per second, as measured; 0 while not known.",
		"whether the workers work"},
	mShareAdmitted: {"sluice_share_admitted", Gauge, "", []string{"queue", "class"}, RowQueues,
		"Share of the class's newcomers that the queue has room for, from 0 to 1.",
		"which class gives way, and how much"},
	mShedTransitions: {"sluice_shed_transitions_total", Counter, "", []string{"queue"}, RowQueues,
		"How often a class began or ceased to be refused.",
		"bands that are too narrow: a class that flaps"},
	mSignalLost: {"sluice_signal_lost", Gauge, "", []string{"queue", "signal"}, RowOverview,
		"1 while no reading of the signal was believed for three periods, and its on_loss holds.",
		"a queue that nobody can see into"},
	mSignalLastSuccess: {"sluice_signal_last_success_timestamp_seconds", Gauge, "seconds", []string{"queue", "signal"}, RowQueues,
		"When the last reading that was believed arrived, in seconds since 1970.",
		"how old the picture of the queue is"},
	mSignalSamples: {"sluice_signal_samples_total", Counter, "", []string{"queue", "signal", "result"}, RowQueues,
		"Readings of the signal: sound and skewed ones were believed, all others say why not.",
		"why readings are not believed"},
	mPromisesMade: {"sluice_promises_made_total", Counter, "", []string{"queue", "class"}, RowQueues,
		"Refusals that promised a time at which to come back.",
		"how many are told when to come back"},
	mPromisesKept: {"sluice_promises_kept_total", Counter, "", []string{"queue", "class"}, RowQueues,
		"Requests admitted that came back when they were told.",
		"whether Retry-After comes true; against returners"},
	mReturners: {"sluice_returners_total", Counter, "", []string{"queue", "class"}, RowQueues,
		"Requests that came back when they were told.",
		"how many do come back when told"},
	mOriginPlaces: {"sluice_origin_places", Gauge, "", []string{"places"}, RowOrigin,
		"How many requests may be at the origin at once: of all routes, or of the route with places of its own.",
		"how much the origin is trusted with at once"},
	mOriginPlacesTaken: {"sluice_origin_places_taken", Gauge, "", []string{"places"}, RowOrigin,
		"How many of these places are taken.",
		"an origin that is full"},
	mRequestsWaiting: {"sluice_requests_waiting", Gauge, "", []string{"places", "class"}, RowOrigin,
		"Requests that wait for a place at the origin.",
		"which class queues for the origin"},
	mKeyChecks: {"sluice_idempotency_checks_total", Counter, "", []string{"result"}, RowIdempotency,
		"Requests with an idempotency key, by what became of them: the values of Idempotency-Status, and store_unavailable.",
		"repeats answered, misuse of keys, requests without protection"},
	mKeysRunning: {"sluice_idempotency_running", Gauge, "", nil, RowIdempotency,
		"Records that this gateway is asking about or executing the request of.",
		"keyed requests under way"},
	mKeysWaiting: {"sluice_idempotency_waiting", Gauge, "", nil, RowIdempotency,
		"Repetitions that wait for the first request to end.",
		"clients that repeat before the first answer"},
	mKeysInDoubt: {"sluice_idempotency_in_doubt_total", Counter, "", []string{"cause"}, RowIdempotency,
		"Records put in doubt. outcome: the request's own gateway does not know what came of it; lapsed: that gateway has been silent for too long.",
		"keys that a person has to resolve"},
	mKeysTakenOver: {"sluice_idempotency_taken_over_total", Counter, "", nil, RowIdempotency,
		"Records taken over from a gateway that has been silent for too long, under on_unknown: release.",
		"gateways that died in the middle of a request"},
	mKeysNotStored: {"sluice_idempotency_not_stored_total", Counter, "", nil, RowIdempotency,
		"Answers that could not be stored, or not in time.",
		"repeats that will not be recognised"},
	mKeyTombstones: {"sluice_idempotency_tombstones_total", Counter, "", nil, RowIdempotency,
		"Records kept without their body, because it was too large.",
		"answers larger than max_replay"},
	mKeyCacheHits: {"sluice_idempotency_cache_hits_total", Counter, "", nil, RowIdempotency,
		"Requests answered from memory alone.",
		"repeats that cost nothing"},
	mKeyCacheBytes: {"sluice_idempotency_cache_bytes", Gauge, "bytes", nil, RowIdempotency,
		"What the answers in memory hold.",
		"the use of store.cache"},
	mStoreCalls: {"sluice_store_calls_total", Counter, "", []string{"op"}, RowIdempotency,
		"Operations of the store of idempotency records.",
		"the load on the store"},
	mStoreErrors: {"sluice_store_errors_total", Counter, "", []string{"op"}, RowIdempotency,
		"Operations of the store that failed.",
		"a store that is away"},
	mStoreTime: {"sluice_store_time_seconds_total", Counter, "seconds", []string{"op"}, RowIdempotency,
		"Time spent in operations of the store.",
		"a store that is slow: divided by the calls"},
	mCertificateExpiry: {"sluice_certificate_expiry_timestamp_seconds", Gauge, "seconds", []string{"certificate"}, RowGateway,
		"When a certificate that the gateway shows expires, in seconds since 1970, by the configuration's path to it.",
		"a renewal that did not happen"},
	mCandidateInfo: {"sluice_candidate_info", Gauge, "", []string{"hash"}, RowCandidate,
		"Always 1, with the hash of the candidate policy's configuration. Absent without one.",
		"which candidate the counts are of"},
	mCandidateAsked: {"sluice_candidate_asked", Gauge, "", nil, RowCandidate,
		"1 while the candidate policy is asked, 0 once a panic has switched it off.",
		"counts that stand still for that reason"},
	mCandidateLoaded: {"sluice_candidate_last_load_successful", Gauge, "", nil, RowCandidate,
		"1 if the last attempt to load the candidate policy succeeded, 0 if it failed and the one before goes on.",
		"a candidate that is not the file's"},
	mCandidatePanics: {"sluice_candidate_panics_total", Counter, "", nil, RowCandidate,
		"Panics in the candidate policy, each of which switched it off until the next reload.",
		"a fault in the gateway that did not reach requests"},
}

// Catalogue returns the description of every metric, in documentation order.
// Go runtime and process metrics (go_*, process_*) come on top.
func Catalogue() []MetricInfo { return append([]MetricInfo(nil), catalogue[:]...) }

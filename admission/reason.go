package admission

// Reason says why a request was not forwarded, or why forwarding it failed.
// The set is closed: the same word appears in metric labels, the decision log,
// problem bodies and tests.
type Reason uint8

const (
	// None is the zero value: nothing stood in the way.
	None Reason = iota

	// Capacity and limits.
	TenantLimit // the tenant's own bucket is empty
	Deferred    // capacity is short; the request is told when to come back
	Shed        // capacity is short; the request is refused
	OriginFull  // no origin slot within the class's max_wait
	SignalLost  // a queue's signal is lost and its policy says closed

	// Idempotency keys.
	KeyMissing
	KeyInvalid
	KeyReused     // same key, different request
	KeyInProgress // the first request with this key is still running
	KeyInDoubt    // the first request's outcome is unknown
	StoreUnavailable

	// Tenants.
	TenantMissing
	TenantUnknown

	// Routing and protocol.
	NoRoute             // nothing matched and the policy says unmatched: refuse
	BadRequest          // malformed or ambiguous
	TooLarge            // body over its limit
	URITooLong          // request target over its limit
	HeadersTooLarge     // header block over its limit
	MethodNotAllowed    // CONNECT, TRACE, OPTIONS * and the like
	ExpectationFailed   // an Expect other than 100-continue
	VersionUnsupported  // not HTTP/1.0 or HTTP/1.1
	EncodingUnsupported // a transfer coding other than chunked
	RequestTimeout      // the client took too long to send the request
	LoopDetected        // the request has passed through this gateway before

	// The origin.
	OriginUnreachable // not_sent
	OriginFailed      // unknown
	OriginTimeout     // unknown, by deadline

	// The gateway itself.
	TooManyConnections
	Draining
	Internal

	reasonCount
)

// Reasons lists every reason but None, in the order above.
func Reasons() []Reason {
	all := make([]Reason, 0, reasonCount-1)
	for r := None + 1; r < reasonCount; r++ {
		all = append(all, r)
	}
	return all
}

// reasonFacts is what the wire contract says of a reason.
type reasonFacts struct {
	name   string
	status int
	title  string // the problem's short summary; the same for every occurrence
	detail string // what the client can do about it
	retry  bool   // the refusal carries Retry-After
}

var reasons = [reasonCount]reasonFacts{
	None: {name: "none", status: 200},

	TenantLimit: {"tenant_limit", 429, "Too many requests", "The request rate of this tenant is used up. Wait for the time given in Retry-After.", true},
	Deferred:    {"deferred", 503, "Come back later", "Capacity is short. Send this request again after the time given in Retry-After.", true},
	Shed:        {"shed", 503, "Capacity is short", "The service is receiving more work than it can do in time. Send this request again after the time given in Retry-After.", true},
	OriginFull:  {"origin_full", 503, "Capacity is short", "The service is busy. Send this request again after the time given in Retry-After.", true},
	SignalLost:  {"signal_lost", 503, "Temporarily not accepting work", "The service cannot tell at the moment whether it could do this work in time. Send this request again after the time given in Retry-After.", true},

	KeyMissing:       {"key_missing", 400, "Idempotency-Key is missing", "This request needs an Idempotency-Key header, so that repeating it is safe.", false},
	KeyInvalid:       {"key_invalid", 400, "Idempotency-Key is malformed", "An Idempotency-Key is one header line of 1 to 255 visible ASCII characters, quoted or bare.", false},
	KeyReused:        {"key_reused", 422, "Idempotency-Key was used for another request", "This Idempotency-Key belongs to a different request. Use a new key for a new request.", false},
	KeyInProgress:    {"key_in_progress", 409, "The first request is still running", "A request with this Idempotency-Key is still running. Send this one again after the time given in Retry-After to get its answer.", true},
	KeyInDoubt:       {"key_in_doubt", 409, "The outcome of the first request is unknown", "A request with this Idempotency-Key was sent on and no answer came back, so it may have taken effect. Sending it again could repeat that effect. Find out whether it did before using a new key.", false},
	StoreUnavailable: {"store_unavailable", 503, "Idempotency-Key cannot be checked", "This request was not executed, since its Idempotency-Key cannot be checked at the moment. Send it again, with the same key, after the time given in Retry-After.", true},

	TenantMissing: {"tenant_missing", 400, "The request does not say on whose behalf it comes", "Identify the tenant.", false},
	TenantUnknown: {"tenant_unknown", 400, "Unknown tenant", "The request's tenant is not known here.", false},

	NoRoute:             {"no_route", 404, "No such route", "Nothing is published at this method and path.", false},
	BadRequest:          {"bad_request", 400, "Malformed request", "The request is malformed or ambiguous and was not forwarded.", false},
	TooLarge:            {"too_large", 413, "Request body too large", "The request body is larger than this route accepts.", false},
	URITooLong:          {"uri_too_long", 414, "Request target too long", "The request target is longer than this service accepts.", false},
	HeadersTooLarge:     {"headers_too_large", 431, "Request headers too large", "The request's header fields are larger than this service accepts.", false},
	MethodNotAllowed:    {"method_not_allowed", 405, "Method not allowed", "This method is not served here.", false},
	ExpectationFailed:   {"expectation_failed", 417, "Expectation failed", "The only expectation supported is 100-continue.", false},
	VersionUnsupported:  {"version_unsupported", 505, "HTTP version not supported", "Use HTTP/1.1.", false},
	EncodingUnsupported: {"encoding_unsupported", 501, "Transfer coding not supported", "The only transfer coding supported is chunked.", false},
	RequestTimeout:      {"request_timeout", 408, "Request timed out", "The request did not arrive in full within the time allowed.", false},
	LoopDetected:        {"loop_detected", 508, "Loop detected", "The request has passed through this gateway before.", false},

	OriginUnreachable: {"origin_unreachable", 502, "The service cannot be reached", "The request was not sent to the service. It is safe to send it again after the time given in Retry-After.", true},
	OriginFailed:      {"origin_failed", 502, "The service gave no complete answer", "The request was sent to the service and no complete answer came back, so it may have taken effect.", false},
	OriginTimeout:     {"origin_timeout", 504, "The service did not answer in time", "The request was sent to the service and no answer came back in time, so it may have taken effect.", false},

	TooManyConnections: {"too_many_connections", 503, "Too many connections", "This gateway holds as many connections as it may. Try again after the time given in Retry-After.", true},
	Draining:           {"draining", 503, "Shutting down", "This gateway is shutting down. Send the request again after the time given in Retry-After.", true},
	Internal:           {"internal", 500, "Internal error", "The gateway failed to handle this request.", false},
}

// String returns the reason's name on the wire and in metrics.
func (r Reason) String() string { return reasons[r].name }

// Status is the HTTP status the reason is answered with unless the policy says
// otherwise.
func (r Reason) Status() int { return reasons[r].status }

// Title is the problem title (RFC 9457 section 3.1.3) of the reason.
func (r Reason) Title() string { return reasons[r].title }

// Detail tells the client what it can do. It holds no capacity figures, class
// names or addresses.
func (r Reason) Detail() string { return reasons[r].detail }

// Retryable reports whether answers with this reason carry Retry-After.
func (r Reason) Retryable() bool { return reasons[r].retry }

// Type is the problem type URI (RFC 9457 section 3.1.1): the registered types
// of draft-ietf-httpapi-ratelimit-headers where they fit, ours otherwise.
func (r Reason) Type() string {
	switch r {
	case TenantLimit:
		return "https://iana.org/assignments/http-problem-types#quota-exceeded"
	case Deferred, Shed, OriginFull:
		return "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	}
	return "urn:sluice:problem:" + r.String()
}

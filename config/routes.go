package config

import "sluice/config/value"

// Class is how much a request matters; its place in the list is its rank.
type Class struct {
	// Name of the class, in lower-case words joined by hyphens.
	Name ID `yaml:"name" identity:"true" required:"true" example:"standard"`
	// Share of the places at the origin (origin.max_in_flight) while all are
	// wanted. What a class does not use is lent to the others. Absent: as much as
	// every other class without one.
	Share value.Percent `yaml:"share" above:"0%"`
	// How long a request may wait for such a place.
	MaxWait value.Duration `yaml:"max_wait" default:"0s" min:"0s" max:"1m" aka:"wait,timeout"`
}

// ClassHeader lets clients name the class of a request.
type ClassHeader struct {
	// Header field whose value is the name of a class.
	Name HeaderName `yaml:"name" default:"X-Priority"`
	// Most important class that a tenant without max_class may name; what asks
	// for more gets this one.
	Ceiling ID `yaml:"ceiling" required:"true" example:"standard" aka:"max,maxclass"`
}

// PriorityRule gives the requests that it matches their class.
type PriorityRule struct {
	// Stable name of the rule, in lower-case words joined by hyphens.
	ID ID `yaml:"id" identity:"true" required:"true" example:"backfills" aka:"name"`
	// Which requests.
	When Condition `yaml:"when" required:"true" example:"{header: {X-Job-Type: backfill}}" aka:"match,if"`
	// The class that they get.
	Class ID `yaml:"class" required:"true" example:"bulk"`
}

// Condition matches requests for which everything that it says holds.
type Condition struct {
	// One of these methods.
	Methods []Method `yaml:"methods" single:"method" min:"1" max:"32" aka:"verb,verbs"`
	// A pattern for the raw path; see Match.
	Path PathPattern `yaml:"path" aka:"url,uri"`
	// Header fields and their values. In a value, * stands for any text: "*"
	// alone wants the field to be there.
	Header map[HeaderName]Glob `yaml:"header" min:"1" max:"32" aka:"headers"`
	// One of these tenants; * stands for any text.
	Tenants []Glob `yaml:"tenants" single:"tenant" min:"1" max:"1000" aka:"customer,client,user"`
	// At least one of these holds.
	Any []Condition `yaml:"any" min:"1" max:"100" aka:"or"`
	// Each of these holds.
	All []Condition `yaml:"all" min:"1" max:"100" aka:"and"`
	// This does not hold.
	Not *Condition `yaml:"not"`
}

// Route matches requests by method and raw path, and says how they are guarded.
type Route struct {
	// Stable name of the route, in lower-case words joined by hyphens: it is the
	// label in metrics and logs.
	ID ID `yaml:"id" identity:"true" required:"true" example:"create-order" aka:"name"`
	// Which requests.
	Match Match `yaml:"match" required:"true" example:"{method: POST, path: /v1/orders}" aka:"when,if"`
	// How much they matter, unless a priority rule says otherwise.
	Class ID `yaml:"class" required:"true" example:"standard" aka:"priority"`
	// Queue that the requests put work on. Absent: none.
	Queue ID `yaml:"queue" aka:"topic"`
	// Places at the origin for this route alone, apart from origin.max_in_flight.
	MaxInFlight int `yaml:"max_in_flight" min:"1" max:"1000000" aka:"concurrency"`
	// Tokens that one request takes.
	Cost int64 `yaml:"cost" default:"1" min:"1" max:"1000000" aka:"weight"`
	// Lets a request say that it costs more. Absent: it can't.
	CostHeader *CostHeader `yaml:"cost_header"`
	// A bucket for each tenant on this route alone, instead of the tenant's own.
	Limit *Limit `yaml:"limit" aka:"ratelimit,limits"`
	// What is done with idempotency keys. Absent: they are not looked at.
	Idempotency *Idempotency `yaml:"idempotency" aka:"idempotent,idempotencykey"`
	// shadow: whatever is decided on this route is counted and lets pass.
	Mode Mode `yaml:"mode" default:"enforce"`
	// Pass bodies on as they come, both ways, instead of holding them.
	Stream bool `yaml:"stream" default:"false" aka:"streaming"`
	// Let clients upgrade the connection, as WebSocket does.
	Upgrade bool `yaml:"upgrade" default:"false" aka:"websocket,websockets"`
	// Largest request body. Absent: limits.max_body.
	MaxBody value.Size `yaml:"max_body" min:"1B" max:"1TiB"`
	// Time for one exchange with the origin. Absent: origin.timeout.
	Timeout value.Duration `yaml:"timeout" min:"1ms" max:"24h"`
	// Time for a request's body to arrive. Absent: limits.body_timeout.
	BodyTimeout value.Duration `yaml:"body_timeout" min:"10ms" max:"24h"`
	// Largest answer held in memory. Absent: limits.max_response.
	MaxResponse value.Size `yaml:"max_response" min:"1KiB" max:"1TiB"`
}

// Match is which requests a route is for.
type Match struct {
	// One of these methods. Absent: any.
	Methods []Method `yaml:"methods" single:"method" min:"1" max:"32" aka:"verb,verbs"`
	// A pattern for the raw path, as the client sent it: text stands for itself,
	// * for one segment that is not empty, ** at the end for any rest.
	Path PathPattern `yaml:"path" required:"true" example:"/v1/orders" aka:"url,uri,pattern"`
}

// CostHeader lets a request say that it costs more than its route's cost.
type CostHeader struct {
	// Header field whose value is a whole number of tokens.
	Name HeaderName `yaml:"name" required:"true" example:"X-Cost"`
	// Most that it can ask for; what asks for more pays this.
	Max int64 `yaml:"max" required:"true" min:"1" max:"1000000" example:"100"`
}

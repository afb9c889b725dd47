package priority

import (
	"fmt"
	"strings"
	"testing"

	"sluice/admission"
)

// fields is a request's header.
type fields [][2]string

func (f fields) Get(name string) (value string, count int) {
	for _, field := range f {
		if strings.EqualFold(field[0], name) {
			if count == 0 {
				value = field[1]
			}
			count++
		}
	}
	return value, count
}

// routes makes routes from lines such as "POST /v1/orders", or "/files/**" for
// any method. Each is called by its line.
func routes(lines ...string) []Route {
	var all []Route
	for i, line := range lines {
		r := Route{Path: line, Route: &admission.Route{ID: line, Index: i}}
		if methods, path, ok := strings.Cut(line, " "); ok {
			r.Methods, r.Path = strings.Split(methods, ","), path
		}
		all = append(all, r)
	}
	return all
}

func router(t testing.TB, lines ...string) *Router {
	t.Helper()
	r, err := NewRouter(routes(lines...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// id names a route; "" for none.
func id(r *admission.Route) string {
	if r == nil {
		return ""
	}
	return r.ID
}

// hundreds is a policy of some size.
func hundreds() []string {
	var lines []string
	for i := range 100 {
		lines = append(lines,
			fmt.Sprintf("GET /v1/resource-%d/*", i),
			fmt.Sprintf("POST /v1/resource-%d", i),
			fmt.Sprintf("POST /v1/*/action-%d", i),
			fmt.Sprintf("/static-%d/**", i),
		)
	}
	return append(lines, "GET /v1/**")
}

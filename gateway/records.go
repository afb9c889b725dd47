package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sluice/admin"
	"sluice/admission"
	"sluice/idempotency"
	"sluice/proxy"
)

// records is an operator's way to the records of keys.
type records struct{ g *Gateway }

var _ admin.Records = records{}

// recordKey reads the key as clients write it, and checks that the route looks
// at keys at all: a misspelt one would otherwise just not be found.
func (r records) recordKey(k admin.RecordKey) (idempotency.RecordKey, error) {
	now := r.g.current.Load()
	at := slices.IndexFunc(now.names.Routes, func(route *admission.Route) bool { return route.ID == k.Route })
	if at < 0 || now.keys == nil || now.keys.routes[at] == nil {
		return idempotency.RecordKey{}, admin.RecordError{Status: http.StatusNotFound, Text: fmt.Sprintf("No route with the id %q looks at idempotency keys.", k.Route)}
	}
	key, err := idempotency.ParseKey([][]byte{[]byte(k.Key)}, false)
	if err != nil {
		return idempotency.RecordKey{}, admin.RecordError{Status: http.StatusBadRequest, Text: err.Error()}
	}
	return idempotency.RecordKey{Tenant: k.Tenant, Scope: k.Route, Key: string(key)}, nil
}

// Find implements admin.Records.
func (r records) Find(ctx context.Context, k admin.RecordKey) (any, error) {
	rk, err := r.recordKey(k)
	if err != nil {
		return nil, err
	}
	view, err := r.g.store.gate.Find(ctx, rk)
	if err != nil {
		return nil, recordError(err)
	}
	return shownRecord(view), nil
}

// shownRecord adds how long the record lasts.
func shownRecord(v idempotency.RecordView) any {
	shown := struct {
		idempotency.RecordView
		Left      string `json:"retention_left"`
		LeaseLeft string `json:"lease_left,omitempty"`
	}{v, v.Left.String(), ""}
	if v.State == idempotency.InFlight {
		shown.LeaseLeft = v.LeaseLeft.String()
	}
	return shown
}

// Resolve implements admin.Records.
func (r records) Resolve(ctx context.Context, k admin.RecordKey, to admin.RecordResolution) (any, error) {
	rk, err := r.recordKey(k)
	if err != nil {
		return nil, err
	}
	var resolution idempotency.Resolution
	switch to.Resolve {
	case "absent":
		if to.Answer != nil {
			return nil, admin.RecordError{Status: http.StatusBadRequest, Text: "A request that took no effect has no answer; leave answer out."}
		}
	case "completed":
		if to.Answer == nil {
			return nil, admin.RecordError{Status: http.StatusBadRequest, Text: `Give the answer that repetitions are to get, such as "answer": {"status": 202}.`}
		}
		a := &idempotency.Answer{Status: to.Answer.Status, Body: []byte(to.Answer.Body)}
		for name, value := range to.Answer.Header {
			if !proxy.ValidField(name, value) {
				return nil, admin.RecordError{Status: http.StatusBadRequest, Text: fmt.Sprintf("%q is no header field that can be replayed.", name)}
			}
			a.Fields = append(a.Fields, idempotency.Field{Name: name, Value: value})
		}
		slices.SortFunc(a.Fields, func(x, y idempotency.Field) int { return strings.Compare(x.Name, y.Name) })
		resolution.Answer = a
	default:
		return nil, admin.RecordError{Status: http.StatusBadRequest, Text: `resolve is "absent" where the request took no effect, or "completed" where it did.`}
	}
	change, err := r.g.store.gate.Resolve(ctx, rk, resolution)
	if err != nil {
		return nil, recordError(err)
	}
	r.g.log.Info("audit: an operator resolved an idempotency record", "tenant", k.Tenant, "route", k.Route,
		"record", change.Before.Name, "was", change.Before.StateName, "now", to.Resolve)
	shown := map[string]any{"before": shownRecord(change.Before), "after": nil}
	if change.After != nil {
		shown["after"] = shownRecord(*change.After)
	}
	return shown, nil
}

func recordError(err error) error {
	switch {
	case errors.Is(err, idempotency.ErrNoRecord):
		return admin.RecordError{Status: http.StatusNotFound, Text: err.Error()}
	case errors.Is(err, idempotency.ErrRunning), errors.Is(err, idempotency.ErrAnswered), errors.Is(err, idempotency.ErrLost):
		return admin.RecordError{Status: http.StatusConflict, Text: err.Error()}
	}
	return fmt.Errorf("the store cannot be asked: %w", err)
}

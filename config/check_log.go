package config

import (
	"slices"
	"strings"

	"sluice/config/strict"
)

// secretFields are header fields that are never written anywhere.
var secretFields = []string{"authorization", "proxy-authorization", "cookie", "set-cookie", "idempotency-key", "sluice-ticket"}

func (k checker) checkDecisionLog() {
	for i, name := range k.DecisionLog.Headers {
		lower := strings.ToLower(string(name))
		secret := slices.Contains(secretFields, lower) || slices.ContainsFunc(k.Tenants.From, func(s TenantSource) bool {
			return s.APIKey != nil && strings.EqualFold(string(s.APIKey.Header), lower)
		})
		if secret {
			k.Problem(strict.Index("decision_log.headers", i), "%s carries a secret, and is never written; remove it", name)
		}
	}
}

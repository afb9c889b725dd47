package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"sluice/admission"
	"sluice/config"
	"sluice/idempotency"
)

// store is what outlives reloads of idempotency: the records and the gate
// before them.
type store struct {
	gate  *idempotency.Gate
	store idempotency.Store
	kind  string // for operators
}

// builtInSecret makes record names where the configuration gives no secret.
// They are then hashes rather than secrets, which the configuration warns of.
const builtInSecret = "sluice record names, version 1"

func newStore(cfg *config.Config) (*store, error) {
	s := &cfg.Store
	codec, err := idempotency.NewCodec(idempotency.CodecOptions{SealKeys: sealKeys(s.Encrypt)})
	if err != nil {
		return nil, fmt.Errorf("store.encrypt: %w", err)
	}
	names := idempotency.NameOptions{Secrets: [][]byte{[]byte(builtInSecret)}}
	if len(s.Secrets) > 0 {
		names.Secrets = nil
		for _, secret := range s.Secrets {
			names.Secrets = append(names.Secrets, []byte(secret.Reveal()))
		}
	}
	st := &store{kind: "memory"}
	if r := s.Redis; r != nil {
		st.kind = "redis"
		names.Prefix = string(r.Prefix)
		st.store, err = newRedisStore(codec, r)
	} else {
		st.store, err = idempotency.NewMemory(codec, idempotency.MemoryOptions{
			MaxBytes: int64(s.Memory.MaxBytes), Journal: string(s.Memory.Journal), Sync: journalSyncs[s.Memory.Sync],
		})
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	n, err := idempotency.NewNames(names)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	cache := int(s.Cache)
	if cache == 0 {
		cache = -1
	}
	st.gate, err = idempotency.New(st.store, n, idempotency.Options{CacheBytes: cache})
	return st, err
}

var journalSyncs = map[config.JournalSync]idempotency.Sync{
	config.SyncAlways: idempotency.SyncAlways,
	config.SyncSecond: idempotency.SyncEverySecond,
	config.SyncNever:  idempotency.SyncNever,
}

func sealKeys(list []config.EncryptKey) (keys []idempotency.SealKey) {
	for _, e := range list {
		keys = append(keys, idempotency.SealKey{ID: uint8(e.ID), Key: e.Key.Bytes()})
	}
	return keys
}

func newRedisStore(codec *idempotency.Codec, r *config.RedisStore) (idempotency.Store, error) {
	tlsConfig, err := originTLS(r.TLS)
	if err != nil {
		return nil, err
	}
	return idempotency.NewRedis(codec, idempotency.RedisOptions{
		URL:       r.URL.Reveal(),
		Sentinels: r.Sentinels, Master: r.Master,
		Nodes:    r.Nodes,
		Username: r.Username, Password: r.Password.Reveal(),
		Database: r.Database, TLS: tlsConfig,
		Timeout: time.Duration(r.Timeout), Connections: r.Connections,
	})
}

// check says at the start what endangers the records. A store that cannot be
// asked is no reason not to start: routes say themselves what happens then.
func (s *store) check(ctx context.Context, g *Gateway) {
	r, ok := s.store.(*idempotency.Redis)
	if !ok {
		return
	}
	risks, err := r.Check(ctx)
	if err != nil {
		g.log.Error("the store cannot be asked; requests with keys fare as their routes say until it can", "error", err)
	}
	for _, risk := range risks {
		g.log.Warn("the store may lose records, and with them the protection against repeated execution", "risk", risk.String())
	}
}

func (s *store) close(ctx context.Context) error {
	return errors.Join(s.gate.Close(ctx), s.store.Close())
}

// keys is idempotency as the controller sees it, under one policy.
type keys struct {
	gate   *idempotency.Gate
	routes []*keyRoute // by admission.Route.Index; nil: keys are not looked at
}

var _ admission.Keys = (*keys)(nil)

// keyRoute is what one route does with keys.
type keyRoute struct {
	policy      idempotency.Policy
	fingerprint *idempotency.Fingerprinter
	required    bool
	quoted      bool
	methods     []string
	credential  []string // fields that may carry what the caller authenticates with
}

// keyed is what is known of one request with a key.
type keyed struct {
	key   []byte // in the transport's memory, like all facts
	ask   idempotency.Keyed
	claim *idempotency.Claim
}

var keyedPool = sync.Pool{New: func() any { return new(keyed) }}

// keysOf prepares what the routes do with keys. It returns nil where none looks
// at them.
func keysOf(cfg *config.Config) (*keys, error) {
	k := &keys{routes: make([]*keyRoute, len(cfg.Routes))}
	any := false
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		if r.Idempotency == nil || r.Idempotency.Key == config.KeyOff {
			continue
		}
		route, err := keyRouteOf(cfg, r)
		if err != nil {
			return nil, fmt.Errorf("routes[%s].idempotency: %w", r.ID, err)
		}
		k.routes[i], any = route, true
	}
	if !any {
		return nil, nil
	}
	return k, nil
}

func keyRouteOf(cfg *config.Config, r *config.Route) (*keyRoute, error) {
	p := r.Idempotency
	k := &keyRoute{
		policy: idempotency.Policy{
			Lease:            cfg.Lease(r),
			Retention:        time.Duration(p.Retention),
			Wait:             time.Duration(p.Wait),
			MaxReplay:        int(p.MaxReplay),
			PassUnchecked:    p.OnStoreDown == config.StoreOpen,
			BindCredential:   p.Credentials == config.CredentialsBind,
			DoubtUnavailable: p.On503 == config.Hold,
			KeepHeaders:      texts(p.KeepHeaders),
		},
		required: p.Key == config.KeyRequired,
		quoted:   p.Quoted,
		methods:  texts(p.Methods),
	}
	if p.OnUnknown == config.Release {
		k.policy.OnUnknown = idempotency.Release
	}
	var err error
	k.fingerprint, err = idempotency.NewFingerprinter(idempotency.FingerprintOptions{
		Headers: texts(p.Fingerprint.Headers), JSON: p.Fingerprint.JSON, Ignore: p.Fingerprint.Ignore,
	})
	if err != nil {
		return nil, err
	}
	if k.policy.BindCredential {
		k.credential = []string{"Authorization"}
		for _, s := range cfg.Tenants.From {
			if s.APIKey != nil {
				k.credential = append(k.credential, string(s.APIKey.Header))
			}
		}
	}
	return k, k.policy.Check()
}

// Check implements admission.Keys.
func (k *keys) Check(r *admission.Request) admission.Refusal {
	key, refusal := k.read(r)
	if key != nil {
		x := keyedPool.Get().(*keyed)
		x.key = key
		r.Keyed, r.Key = true, x
	}
	return refusal
}

// read returns the key of a request; nil where it has none that counts.
func (k *keys) read(r *admission.Request) ([]byte, admission.Refusal) {
	route := k.routes[r.Route.Index]
	if route == nil || !slices.Contains(route.methods, r.Method) {
		return nil, admission.Refusal{}
	}
	value, count := r.Header.Get("Idempotency-Key")
	if count == 0 && !route.required {
		return nil, admission.Refusal{}
	}
	line := unsafe.Slice(unsafe.StringData(value), len(value)) // ParseKey only reads
	key, err := idempotency.ParseKey([][]byte{line, line}[:min(count, 2)], route.quoted)
	if err == nil {
		return key, admission.Refusal{}
	}
	var wrong *idempotency.KeyError
	switch {
	case errors.As(err, &wrong) && wrong.Reason == admission.KeyMissing:
		return nil, admission.Refusal{Reason: wrong.Reason}
	case wrong != nil:
		return nil, admission.Refusal{Reason: wrong.Reason, Form: &admission.Form{Detail: wrong.Error() + "."}}
	}
	return key, admission.Refusal{}
}

// Prepare implements admission.Keys.
func (k *keys) Prepare(r *admission.Request, body []byte) {
	route, x := k.routes[r.Route.Index], r.Key.(*keyed)
	ask := idempotency.Ask{
		Tenant: r.Tenant, Scope: r.Route.ID, Key: x.key, Policy: &route.policy,
		Fingerprint: route.fingerprint.Sum(r.Method, r.Path, r.Query, r.Header.(idempotency.FieldLines), body),
	}
	for _, field := range route.credential {
		if value, n := r.Header.Get(field); n > 0 {
			ask.Credential = []byte(value)
			break
		}
	}
	x.ask = k.gate.Prepare(&ask)
	r.Fingerprint = max(binary.BigEndian.Uint64(ask.Fingerprint[:]), 1)
}

// Cached implements admission.Keys.
func (k *keys) Cached(r *admission.Request) (admission.Finding, bool) {
	f, ok := k.gate.Cached(&r.Key.(*keyed).ask)
	return findingOf(&f), ok
}

// Lookup implements admission.Keys.
func (k *keys) Lookup(r *admission.Request) (admission.Finding, bool) {
	f, ok := k.gate.Lookup(context.Background(), &r.Key.(*keyed).ask)
	return findingOf(&f), ok
}

// Claim implements admission.Keys.
func (k *keys) Claim(r *admission.Request) admission.Finding {
	x := r.Key.(*keyed)
	f := k.gate.Claim(context.Background(), &x.ask)
	if f.Claim != nil {
		x.claim = f.Claim
		r.Attempt, r.SendBy = f.Claim.Attempt(), f.Claim.LeaseEnds()
	}
	return findingOf(&f)
}

// Settle implements admission.Keys.
func (k *keys) Settle(r *admission.Request, o admission.Outcome, a admission.Answer) string {
	x := r.Key.(*keyed)
	if x.claim == nil {
		return ""
	}
	return k.gate.Settle(x.claim, o, idempotency.Response{Status: a.Status, Header: a.Header, Body: a.Body}).String()
}

// Forget implements admission.Keys.
func (k *keys) Forget(r *admission.Request) {
	if x, ok := r.Key.(*keyed); ok {
		*x = keyed{}
		keyedPool.Put(x)
	}
	r.Key = nil
}

func findingOf(f *idempotency.Finding) admission.Finding {
	out := admission.Finding{Verdict: f.Verdict, Reason: f.Reason, RetryAfter: f.RetryAfter, Status: f.Status.String()}
	if a := f.Answer; a != nil {
		out.Recorded = admission.Recorded{Status: a.Status, Fields: a.Fields, Body: a.Body}
	}
	return out
}

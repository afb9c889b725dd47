package idempotency

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"sluice/internal/nowait"
)

// RedisOptions says which Redis keeps the records, version 7 or newer. Give
// exactly one of URL, Sentinels and Nodes.
type RedisOptions struct {
	// URL of one server: redis://user:password@host:port/database, with rediss
	// for TLS, or unix://user:password@/path/to/socket.
	URL string

	// Sentinels are the addresses of those who watch over Master.
	Sentinels                          []string
	Master                             string
	SentinelUsername, SentinelPassword string

	// Nodes are addresses of a cluster; the others are found from them.
	Nodes []string

	// Username and Password of an ACL user, where the URL names none. It needs
	// SET, GET, PTTL, DEL, EVAL, EVALSHA and INFO on names that begin with the
	// prefix of Names.
	Username, Password string
	Database           int         // with Sentinels; a cluster has only 0
	TLS                *tls.Config // nil: none, or the URL's

	// Timeout bounds one operation, a second try included. A request is
	// delayed by two of them at most before it is refused. Zero means 500ms.
	Timeout time.Duration
	// Connections to each server at most. Zero means 10 for each processor.
	Connections int
}

// The client library writes to standard error by itself. What it has to say
// comes back as errors too, and those end where the gateway's log is.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func (o *RedisOptions) client() (redis.UniversalClient, error) {
	u, err := o.universal()
	if err != nil {
		return nil, err
	}
	u.ContextTimeoutEnabled = true
	// Every operation can be repeated, but is repeated knowingly: see do.
	u.MaxRetries = -1
	u.DialerRetries = 1
	u.MaxRedirects = 3
	try := o.Timeout / 2
	u.DialTimeout, u.ReadTimeout, u.WriteTimeout, u.PoolTimeout = try, try, try, try
	u.PoolSize = o.Connections
	u.MaxConcurrentDials = o.Connections
	u.Protocol = 2
	u.DisableIdentity = true
	u.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	u.PipelinePoolSize = -1 // one pool serves both, so that Connections holds
	u.Dialer = quietly(redis.NewDialer(&redis.Options{DialTimeout: try, TLSConfig: u.TLSConfig}))
	return redis.NewUniversalClient(u), nil
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// quietly makes connections that the scheduler does not hear of; see package
// nowait. Those with TLS stay as they are.
func quietly(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return nowait.Wrap(c), nil
	}
}

func (o *RedisOptions) universal() (*redis.UniversalOptions, error) {
	if o.Timeout == 0 {
		o.Timeout = 500 * time.Millisecond
	}
	if o.Timeout < 2*time.Millisecond {
		return nil, fmt.Errorf("idempotency: redis: timeout is %v; give it at least 2ms", o.Timeout)
	}
	if o.Connections == 0 {
		o.Connections = 10 * runtime.GOMAXPROCS(0)
	}
	if o.Connections < 0 {
		return nil, fmt.Errorf("idempotency: redis: connections is %d; it cannot be negative", o.Connections)
	}
	ways := 0
	for _, given := range []bool{o.URL != "", len(o.Sentinels) > 0, len(o.Nodes) > 0} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, errors.New("idempotency: redis: give exactly one of url, sentinels and nodes")
	}
	u := &redis.UniversalOptions{Username: o.Username, Password: o.Password, TLSConfig: o.TLS, DB: o.Database}
	switch {
	case len(o.Sentinels) > 0:
		if o.Master == "" {
			return nil, errors.New("idempotency: redis: sentinels need master, the name they watch it under")
		}
		u.Addrs, u.MasterName = o.Sentinels, o.Master
		u.SentinelUsername, u.SentinelPassword = o.SentinelUsername, o.SentinelPassword
	case len(o.Nodes) > 0:
		if o.Database != 0 {
			return nil, errors.New("idempotency: redis: a cluster has no database but 0")
		}
		u.Addrs, u.IsClusterMode = o.Nodes, true
	default:
		return u, o.fromURL(u)
	}
	return u, nil
}

func (o *RedisOptions) fromURL(u *redis.UniversalOptions) error {
	p, err := redis.ParseURL(o.URL)
	if err != nil {
		// The error of the parser may quote the URL, and with it a password.
		return errors.New("idempotency: redis: the url is none; write redis://user:password@host:port/database, rediss://… for TLS, or unix://…")
	}
	u.Addrs, u.DB = []string{p.Addr}, p.DB
	if p.Username != "" {
		u.Username = p.Username
	}
	if p.Password != "" {
		u.Password = p.Password
	}
	if u.TLSConfig == nil {
		u.TLSConfig = p.TLSConfig
	}
	return nil
}

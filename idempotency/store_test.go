package idempotency_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/idempotency"
	"sluice/idempotency/storetest"
	"sluice/internal/testcert"
	"sluice/internal/testredis"
	"sluice/internal/testservice"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func newCodec(t testing.TB, o idempotency.CodecOptions) *idempotency.Codec {
	t.Helper()
	c, err := idempotency.NewCodec(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sealed() idempotency.CodecOptions {
	return idempotency.CodecOptions{SealKeys: []idempotency.SealKey{{ID: 3, Key: make([]byte, 32)}}}
}

func newMemory(t testing.TB, c idempotency.CodecOptions, o idempotency.MemoryOptions) *idempotency.Memory {
	t.Helper()
	m, err := idempotency.NewMemory(newCodec(t, c), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func newRedis(t testing.TB, c idempotency.CodecOptions, o idempotency.RedisOptions) *idempotency.Redis {
	t.Helper()
	s, err := idempotency.NewRedis(newCodec(t, c), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// patient is a time limit that a busy machine does not reach.
const patient = 10 * time.Second

func TestMemoryKeepsTheContract(t *testing.T) {
	for name, o := range map[string]struct {
		codec  idempotency.CodecOptions
		memory idempotency.MemoryOptions
	}{
		"plain":                   {},
		"with journal, on disk":   {memory: idempotency.MemoryOptions{Journal: filepath.Join(t.TempDir(), "a")}},
		"with journal, by second": {codec: sealed(), memory: idempotency.MemoryOptions{Journal: filepath.Join(t.TempDir(), "b"), Sync: idempotency.SyncEverySecond}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, o.codec, o.memory)
			storetest.Run(t, storetest.Harness{Store: m, Age: m.AgeForTest, Plant: m.PlantForTest})
		})
	}
}

// redisHarness reaches behind a store's back through servers: the one that
// accepts a command is the one that has the name.
func redisHarness(s idempotency.Store, servers ...*testredis.Server) storetest.Harness {
	do := func(t testing.TB, args ...string) string {
		t.Helper()
		var err error
		for _, server := range servers {
			var reply string
			if reply, err = server.Do(args...); err == nil {
				return reply
			}
		}
		t.Fatalf("%v: %v", args, err)
		return ""
	}
	return storetest.Harness{
		Store: s,
		// A record's age is its retention minus what is left of it, so what is
		// left less makes it older.
		Age: func(t testing.TB, name string, d time.Duration) {
			// In one step: what passed in between would be taken back.
			do(t, "EVAL", `local left = redis.call('PTTL', KEYS[1])
				if left >= 0 then redis.call('PEXPIRE', KEYS[1], left - ARGV[1]) end
				return left`,
				"1", name, fmt.Sprint(d.Milliseconds()))
		},
		Plant: func(t testing.TB, name string, value []byte) {
			do(t, "SET", name, string(value), "PX", "3600000")
		},
	}
}

func TestRedisKeepsTheContract(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		server := testredis.Start(t, "--appendfsync", "no")
		for name, codec := range map[string]idempotency.CodecOptions{"plain": {}, "sealed": sealed()} {
			t.Run(name, func(t *testing.T) {
				s := newRedis(t, codec, idempotency.RedisOptions{URL: "redis://" + server.Addr, Timeout: patient})
				storetest.Run(t, redisHarness(s, server))
			})
		}
	})
	t.Run("cluster", func(t *testing.T) {
		nodes := testredis.StartCluster(t)
		s := newRedis(t, idempotency.CodecOptions{}, idempotency.RedisOptions{Nodes: []string{nodes[0].Addr}, Timeout: patient})
		storetest.Run(t, redisHarness(s, nodes...))
	})
	t.Run("sentinel", func(t *testing.T) {
		w := testredis.StartWatched(t)
		s := newRedis(t, idempotency.CodecOptions{}, idempotency.RedisOptions{Sentinels: w.Sentinels, Master: w.Name, Timeout: patient})
		storetest.Run(t, redisHarness(s, w.Master))
	})
}

func TestRedisSpeaksTLSAsAnACLUser(t *testing.T) {
	own := testcert.SelfSigned(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true})
	cert, key := testcert.Files(t, own)
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
	config.RootCAs.AddCert(own.Leaf)
	server := testredis.Start(t, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", cert, "--tls-auth-clients", "no", "--tls-port", testservice.FreePort(t))
	server.Must("ACL", "SETUSER", "gate", "on", ">secret", "~sluice-test:*", "+set", "+get", "+pttl", "+del", "+eval", "+evalsha", "+info", "+client|setname")
	_, tlsPort := cutLast(server.Must("CONFIG", "GET", "tls-port"))
	s := newRedis(t, idempotency.CodecOptions{}, idempotency.RedisOptions{
		URL: "rediss://gate:secret@127.0.0.1:" + tlsPort, TLS: config, Timeout: patient,
	})
	if _, err := s.Check(t.Context()); err != nil {
		t.Errorf("checking as an ACL user: %v", err)
	}
	r := &idempotency.Record{State: idempotency.InFlight, Owner: idempotency.Owner{Token: [16]byte{1}, Attempt: 1}, Lease: time.Second, Retention: time.Minute}
	if found, err := s.Claim(t.Context(), "sluice-test:tls", r); found != nil || err != nil {
		t.Errorf("claiming: %v, %v", found, err)
	}
	if err := s.Release(t.Context(), "sluice-test:tls", r.Owner, false); err != nil {
		t.Errorf("releasing, which needs scripts: %v", err)
	}
}

func TestARedisURLErrorHidesThePassword(t *testing.T) {
	_, err := idempotency.NewRedis(newCodec(t, idempotency.CodecOptions{}), idempotency.RedisOptions{URL: "redis://user:hunter2@[::1"})
	if err == nil {
		t.Fatal("no error")
	}
	if s := err.Error(); len(s) == 0 || containsFold(s, "hunter2") {
		t.Errorf("error shows the password: %s", s)
	}
}

func TestMemoryJournalFilesArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{Journal: path})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("journal has mode %v, want 0600", info.Mode().Perm())
	}
}

func cutLast(s string) (before, last string) {
	i := strings.LastIndexByte(s, ' ')
	return s[:max(i, 0)], s[i+1:]
}

func containsFold(s, sub string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(sub))
}

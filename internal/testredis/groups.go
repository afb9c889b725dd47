package testredis

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testservice"
)

// StartCluster starts a cluster of three masters that share all slots.
func StartCluster(t testing.TB) []*Server {
	t.Helper()
	const slots = 16384
	nodes := make([]*Server, 3)
	for i := range nodes {
		nodes[i] = Start(t, "--cluster-enabled", "yes", "--cluster-port", testservice.FreePort(t), "--cluster-node-timeout", "2000")
		nodes[i].Must("CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(i*slots/3), fmt.Sprint((i+1)*slots/3-1))
	}
	for _, n := range nodes[1:] {
		host, port, _ := net.SplitHostPort(n.Addr)
		_, bus, _ := strings.Cut(strings.Fields(n.Must("CLUSTER", "NODES"))[1], "@")
		nodes[0].Must("CLUSTER", "MEET", host, port, strings.TrimSuffix(strings.SplitN(bus, ",", 2)[0], ","))
	}
	for _, n := range nodes {
		n.await("see the whole cluster", func() error {
			info, err := n.Do("CLUSTER", "INFO")
			if err == nil && !(strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")) {
				err = errors.New(info)
			}
			return err
		})
	}
	return nodes
}

// Watched is a master with one replica, watched by three Sentinels.
type Watched struct {
	Name            string // under which the Sentinels know the master
	Master, Replica *Server
	Sentinels       []string // addresses
	sentinels       []*Server
}

// StartWatched starts a master, a replica and three Sentinels, and waits until
// they know each other.
func StartWatched(t testing.TB) *Watched {
	t.Helper()
	w := &Watched{Name: "main", Master: Start(t)}
	host, port, _ := net.SplitHostPort(w.Master.Addr)
	w.Replica = Start(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	for range 3 {
		s := prepare(t, nil)
		_, own, _ := net.SplitHostPort(s.Addr)
		config := filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 3000\n",
			own, s.dir, w.Name, host, port, w.Name, w.Name)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.launch("redis-sentinel", config)
		w.sentinels = append(w.sentinels, s)
		w.Sentinels = append(w.Sentinels, s.Addr)
	}
	w.Replica.await("replicate", func() error {
		info, err := w.Replica.Do("INFO", "replication")
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New(info)
		}
		return err
	})
	for _, s := range w.sentinels {
		s.await("know the others", func() error {
			state, err := s.Do("SENTINEL", "MASTER", w.Name)
			if err == nil && !(strings.Contains(state, "num-slaves 1") && strings.Contains(state, "num-other-sentinels 2")) {
				err = errors.New(state)
			}
			return err
		})
	}
	return w
}

// FailOver kills the master and waits until the Sentinels have promoted the
// replica.
func (w *Watched) FailOver() {
	w.Master.Kill()
	w.Replica.await("become master", func() error {
		info, err := w.Replica.Do("INFO", "replication")
		if err == nil && !strings.Contains(info, "role:master") {
			err = errors.New(info)
		}
		return err
	})
	host, port, _ := net.SplitHostPort(w.Replica.Addr)
	for _, s := range w.sentinels {
		s.await("name the new master", func() error {
			at, err := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", w.Name)
			if err == nil && at != host+" "+port {
				err = errors.New(at)
			}
			return err
		})
	}
}

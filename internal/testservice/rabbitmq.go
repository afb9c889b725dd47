package testservice

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// RabbitMQ is a running broker with its management plugin. User and password
// are guest.
type RabbitMQ struct {
	*process
	URL string // of the broker: amqp://
	API string // of the management plugin: http://

	start func() *process
}

// StartRabbitMQ starts an empty broker.
func StartRabbitMQ(t testing.TB) *RabbitMQ {
	t.Helper()
	const hint = "install RabbitMQ 3.8 or newer (Debian, Ubuntu: apt-get install rabbitmq-server)"
	// Not the one on the path: Debian's switches accounts and folders.
	server := program(t, "/usr/lib/rabbitmq/bin/rabbitmq-server", hint, "/usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server", "/usr/local/sbin/rabbitmq-server", "/opt/homebrew/sbin/rabbitmq-server")
	epmd := program(t, "epmd", hint)
	dir := folder(t, "")
	port, api, dist, names := FreePort(t), FreePort(t), FreePort(t), FreePort(t)
	for name, text := range map[string]string{
		"enabled_plugins": "[rabbitmq_management].",
		"rabbitmq.conf": fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%s\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %s\n"+
			"collect_statistics_interval = 1000\nmanagement.rates_mode = basic\n", port, api),
		"advanced.config": "[].",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A name server of our own, in our hands: the usual one is started as a
	// daemon, is shared by all of the machine, and stays.
	launch(t, dir, "", nil, epmd, "-port", names, "-address", "127.0.0.1")
	env := []string{
		"HOME=" + dir, "ERL_EPMD_PORT=" + names, "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=test" + port + "@localhost", "RABBITMQ_DIST_PORT=" + dist,
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(dir, "rabbitmq"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + filepath.Join(dir, "advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "enabled_plugins"),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "data"), "RABBITMQ_LOG_BASE=" + filepath.Join(dir, "log"),
		"RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"), "RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "none"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
	}
	r := &RabbitMQ{URL: "amqp://guest:guest@127.0.0.1:" + port + "/", API: "http://127.0.0.1:" + api}
	r.start = func() *process {
		p := launch(t, dir, "", env, server)
		p.await("listen", func() error {
			c, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				return err
			}
			return c.Close()
		})
		p.await("open its management", func() error {
			req, err := http.NewRequest(http.MethodGet, r.API+"/api/overview", nil)
			if err != nil {
				return err
			}
			req.SetBasicAuth("guest", "guest")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", res.StatusCode)
			}
			return nil
		})
		return p
	}
	r.process = r.start()
	return r
}

// Restart starts a broker that was killed again, with the same ports and data.
func (r *RabbitMQ) Restart() { r.process = r.start() }

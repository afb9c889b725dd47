package command

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"sluice/config"
	"sluice/config/value"
	"sluice/rehearse"
	"sluice/rehearse/explain"
	"sluice/rehearse/spec"
)

// Loader loads the configuration file at path, or the built-in one where path is
// "".
type Loader func(path string) (*config.Config, error)

// questionFlags are a question on the command line.
type questionFlags struct {
	method, path, tenant, class, client, cert, body string
	headers, signals                                []string
	at                                              time.Duration
	already                                         int
	takes                                           time.Duration
}

// Explain is "sluice explain".
func Explain(load Loader) *cobra.Command {
	var f questionFlags
	var a adminFlags
	var file, id string
	var logs []string
	var seed uint64
	var out format
	c := &cobra.Command{
		Use:   "explain [-]",
		Short: "Explain what would be decided about a request, step by step",
		Long: `Explain what would be decided about a request: each step in the order in which a
gateway takes it, what it sees there, the line of the configuration that it stands
on, what the client gets, and what would have changed the decision.

The request is given by flags, or with - as JSON or YAML on standard input:

  {"request": {"method": "POST", "path": "/v1/orders", "tenant": "acme"},
   "signals": {"orders": [{"age": "42s"}]}, "already": 5}

With --id, a decision that was made is made again and told: the id is in each refusal
as request_id, and in each answer as X-Request-Id. A running gateway remembers the
last decisions, with the request and the readings before it. With --log, files that
the gateway has recorded are replayed up to the request under --config, so that it
meets what it met then.

Without --id, or with --log, nothing is connected to. A queue of which no --signal is given is empty. A signal
reads what it is given from 0s on, every so often as its configuration says; the
request is sent --at a later time, so that rates can be told.

Exit code 0: it is explained, whatever was decided; 1: the configuration is wrong, or
the decision is not remembered; 2: the question makes no sense; 4: the gateway cannot
be asked.`,
		Example: `  sluice explain -c config.yaml --method POST --path /v1/orders --tenant acme
  sluice explain -c config.yaml --method POST --path /v1/campaigns/7/send \
    --header 'X-Tenant-Id: acme' --signal orders=age:2m30s,depth:1000 --already 10
  sluice explain --id 5f0c…9a
  sluice explain -c config.yaml --log decisions.jsonl --id 5f0c…9a`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] != "-" {
				return usage(fmt.Errorf("explain: %q is not understood; give the request by flags, or - for standard input", args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := load(file)
			if err != nil {
				return found(err)
			}
			if id != "" {
				if f.path != "" || len(args) > 0 {
					return usage(errors.New("explain: --id and a request exclude each other"))
				}
				if len(logs) > 0 {
					return explainRecorded(c, cfg, logs, id, seed, out)
				}
				return explainID(c, &a, cfg, id, out)
			}
			if len(logs) > 0 {
				return usage(errors.New("explain: which of the decisions in --log? Name it with --id"))
			}
			q, err := f.question(c, cfg, args)
			if err != nil {
				return usage(err)
			}
			e, err := explain.Explain(cfg, q, seed)
			if err != nil {
				return usage(err)
			}
			if out.json() {
				return wrote(e.WriteJSON(c.OutOrStdout()))
			}
			return wrote(e.WriteText(c.OutOrStdout()))
		},
	}
	flags := c.Flags()
	flags.StringVarP(&file, "config", "c", "", "the configuration `file` (default: the built-in config.yaml)")
	flags.StringVarP(&f.method, "method", "X", "GET", "`method` of the request")
	flags.StringVar(&f.path, "path", "", "`path` of the request, with its query if it has one")
	flags.StringVar(&f.tenant, "tenant", "", "`tenant` on whose behalf it comes")
	flags.StringVar(&f.class, "class", "", "`class` that it asks for in the class header")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header `field`, as 'Name: value'; repeatable")
	flags.StringVar(&f.client, "client", rehearse.DefaultClient.String(), "`address` of whoever connects")
	flags.StringVar(&f.cert, "client-cert", "", "`name` in the client's verified certificate")
	flags.StringVar(&f.body, "body", "", "body of the request, where keys compare it")
	flags.StringArrayVar(&f.signals, "signal", nil, "what a queue is like, as `QUEUE=age:42s,depth:1000,done:20/s`, or QUEUE=silent; repeatable")
	flags.DurationVar(&f.at, "at", 10*time.Second, "when it is sent, after signals began to be read")
	flags.IntVar(&f.already, "already", 0, "how `often` the same has been sent just before")
	flags.DurationVar(&f.takes, "takes", 0, "how long the origin takes for each of those before")
	flags.Uint64Var(&seed, "seed", 1, "`seed` of what a gateway draws at random")
	flags.StringVar(&id, "id", "", "`id` of a request that was decided about, by a running gateway or in --log")
	flags.StringArrayVar(&logs, "log", nil, "`file` that decisions were recorded in; - for standard input; repeatable")
	a.add(c)
	out.add(c)
	_ = c.MarkFlagFilename("config", "yaml", "yml")
	return c
}

// wrote is an error of writing a result; nil for nil.
func wrote(err error) error {
	if err == nil {
		return nil
	}
	return found(err)
}

// question reads the question from standard input or from the flags.
func (f *questionFlags) question(c *cobra.Command, cfg *config.Config, args []string) (*explain.Question, error) {
	if len(args) == 1 {
		for _, name := range []string{"method", "path", "tenant", "class", "header", "client", "client-cert", "body", "signal", "at", "already", "takes"} {
			if c.Flags().Changed(name) {
				return nil, fmt.Errorf("explain: --%s and a question on standard input exclude each other", name)
			}
		}
		data, err := io.ReadAll(io.LimitReader(c.InOrStdin(), 1<<20))
		if err != nil {
			return nil, err
		}
		return explain.ParseQuestion("-", data, cfg)
	}
	q := &explain.Question{
		Request: spec.Request{
			Path: f.path, Tenant: f.tenant, Class: f.class, Client: f.client, ClientCert: f.cert, Body: f.body,
			Header: map[config.HeaderName]string{},
		},
		Signals: map[string][]spec.Reading{},
		Already: f.already, At: value.Duration(f.at),
		Origin: spec.Origin{Takes: value.Duration(f.takes), Answers: 200},
	}
	switch _, err := netip.ParseAddr(f.client); {
	case f.path == "":
		return nil, errors.New("explain: which request? Give at least --path, such as --path /v1/orders")
	case f.path[0] != '/':
		return nil, fmt.Errorf("--path: %q is not a path; write it from its first slash on", f.path)
	case err != nil:
		return nil, fmt.Errorf("--client: %q is not an address; write one such as 192.0.2.1", f.client)
	case f.at < 0 || f.already < 0 || f.takes < 0 || f.already > 1_000_000 || f.at > 8760*time.Hour:
		return nil, errors.New("explain: --at, --already and --takes: write 0 or more, at most 8760h and 1000000")
	case f.class != "" && cfg.ClassHeader == nil:
		return nil, fmt.Errorf("--class: requests cannot ask for a class: %s has no class_header", cfg.Source.File)
	}
	if err := q.Request.Method.UnmarshalText([]byte(f.method)); err != nil {
		return nil, fmt.Errorf("--method: %w", err)
	}
	for _, text := range f.headers {
		name, val, err := explain.ParseHeader(text)
		if err != nil {
			return nil, fmt.Errorf("--header: %w", err)
		}
		q.Request.Header[name] = val
	}
	for _, text := range f.signals {
		name, reading, err := explain.ParseSignal(text)
		if err != nil {
			return nil, fmt.Errorf("--signal: %w", err)
		}
		if known := rehearse.SignalNames(cfg); !slices.Contains(known, name) {
			return nil, fmt.Errorf("--signal: %s", spec.Unknown(cfg, "queue, or queue/signal,", name, known))
		}
		q.Signals[name] = []spec.Reading{reading}
	}
	return q, nil
}

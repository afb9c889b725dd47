package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// tokenVariable is the environment variable with the admin listener's token.
const tokenVariable = "SLUICE_ADMIN_TOKEN"

// adminFlags say how to reach the admin listener of a gateway.
type adminFlags struct {
	address, tokenFile string
	ca, cert, key      string // files; any of them means TLS

	known *http.Client // made at the first request
}

func (a *adminFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&a.address, "admin", "127.0.0.1:9090", "`address` of the gateway's admin listener; https:// before it for TLS")
	c.Flags().StringVar(&a.tokenFile, "token-file", "", "`file` with the admin listener's token (default: the variable "+tokenVariable+", if set)")
	c.Flags().StringVar(&a.ca, "ca", "", "PEM `file` with the authority of the listener's certificate (default: the system's)")
	c.Flags().StringVar(&a.cert, "cert", "", "PEM `file` with a client certificate to show the listener")
	c.Flags().StringVar(&a.key, "key", "", "PEM `file` with the key of that certificate")
}

// token is what the listener wants to be shown; "" nothing.
func (a *adminFlags) token() (string, error) {
	if a.tokenFile == "" {
		return os.Getenv(tokenVariable), nil
	}
	data, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// url is where a path of the listener is.
func (a *adminFlags) url(path string) (string, error) {
	host, secure := strings.CutPrefix(a.address, "https://")
	if !secure {
		host = strings.TrimPrefix(host, "http://")
	}
	host = strings.TrimSuffix(host, "/")
	if _, _, err := net.SplitHostPort(host); err != nil {
		return "", fmt.Errorf("--admin: %q is not host:port; write it as 127.0.0.1:9090", a.address)
	}
	if secure || a.ca != "" || a.cert != "" {
		return "https://" + host + path, nil
	}
	return "http://" + host + path, nil
}

// client makes connections to the listener. It has no time limit of its own.
func (a *adminFlags) client() (*http.Client, error) {
	if a.known != nil {
		return a.known, nil
	}
	if (a.cert == "") != (a.key == "") {
		return nil, errors.New("--cert and --key belong together: name both files")
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.ca != "" {
		pem, err := os.ReadFile(a.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca: %s holds no certificate in PEM format", a.ca)
		}
	}
	if a.cert != "" {
		pair, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return nil, fmt.Errorf("--cert, --key: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	// No proxy: the listener is private, and its token is nobody else's.
	a.known = &http.Client{Transport: &http.Transport{TLSClientConfig: settings, IdleConnTimeout: time.Minute}}
	return a.known, nil
}

// maxAnswer is more than a listener answers.
const maxAnswer = 64 << 20

// refusal is what the listener says where it does not do as told.
type refusal struct {
	Detail   string   `json:"detail"`
	Problems []string `json:"problems"`
}

func (a *adminFlags) get(ctx context.Context, path string, into any) ([]byte, error) {
	return a.ask(ctx, http.MethodGet, path, into)
}

// open sends a request to the listener and returns its answer, if that is no
// refusal. Its error has the exit code that it calls for.
func (a *adminFlags) open(ctx context.Context, method, path string) (*http.Response, []byte, error) {
	url, err := a.url(path)
	if err != nil {
		return nil, nil, usage(err)
	}
	token, err := a.token()
	if err != nil {
		return nil, nil, usage(err)
	}
	client, err := a.client()
	if err != nil {
		return nil, nil, usage(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, nil, usage(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, nil, exit(ExitUnreachable, fmt.Errorf("no gateway answers at %s; is it running, and is this its admin.listen? %w", a.address, err))
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		return nil, body, a.refused(res.StatusCode, body)
	}
	return res, nil, nil
}

// ask sends a request to the listener, decodes its answer and returns it as it
// came. Its error has the exit code that it calls for.
func (a *adminFlags) ask(ctx context.Context, method, path string, into any) ([]byte, error) {
	res, body, err := a.open(ctx, method, path)
	if err != nil {
		return body, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, exit(ExitUnreachable, fmt.Errorf("the gateway at %s broke off its answer: %w", a.address, err))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return body, exit(ExitUnreachable, fmt.Errorf("what answers at %s is no gateway's admin listener: %w", a.address, err))
	}
	return body, nil
}

// refused is the error for an answer that is a refusal.
func (a *adminFlags) refused(status int, body []byte) error {
	var r refusal
	_ = json.Unmarshal(body, &r)
	switch {
	case status == http.StatusUnauthorized:
		return exit(ExitUnreachable, fmt.Errorf("the gateway at %s wants its token: set %s, or name a file with --token-file", a.address, tokenVariable))
	case status == http.StatusForbidden && strings.Contains(r.Detail, "client certificate"):
		return exit(ExitUnreachable, fmt.Errorf("the gateway at %s wants a client certificate: name it with --cert and --key", a.address))
	case len(r.Problems) > 0:
		return Exit{ExitFindings, fmt.Errorf("%s\n%s", strings.Join(r.Problems, "\n"), r.Detail)}
	case r.Detail != "":
		return found(fmt.Errorf("the gateway at %s: %s", a.address, r.Detail))
	}
	return found(fmt.Errorf("the gateway at %s answers %d", a.address, status))
}

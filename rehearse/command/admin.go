package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// tokenVariable is the environment variable with the admin listener's token.
const tokenVariable = "SLUICE_ADMIN_TOKEN"

// adminFlags say how to reach the admin listener of a gateway.
type adminFlags struct{ address, tokenFile string }

func (a *adminFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&a.address, "admin", "127.0.0.1:9090", "`address` of the gateway's admin listener")
	c.Flags().StringVar(&a.tokenFile, "token-file", "", "`file` with the admin listener's token (default: the variable "+tokenVariable+", if set)")
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

// ask sends a request to the listener, decodes its answer and returns it as it
// came. Its error has the exit code that it calls for.
func (a *adminFlags) ask(ctx context.Context, method, path string, into any) ([]byte, error) {
	if _, _, err := net.SplitHostPort(a.address); err != nil {
		return nil, usage(fmt.Errorf("--admin: %q is not host:port; write it as 127.0.0.1:9090", a.address))
	}
	token, err := a.token()
	if err != nil {
		return nil, usage(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+a.address+path, nil)
	if err != nil {
		return nil, usage(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, exit(ExitUnreachable, fmt.Errorf("no gateway answers at %s; is it running, and is this its admin.listen? %w", a.address, err))
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, exit(ExitUnreachable, fmt.Errorf("the gateway at %s broke off its answer: %w", a.address, err))
	}
	if res.StatusCode >= 300 {
		return body, a.refused(res.StatusCode, body)
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
	case len(r.Problems) > 0:
		return Exit{ExitFindings, fmt.Errorf("%s\n%s", strings.Join(r.Problems, "\n"), r.Detail)}
	case r.Detail != "":
		return found(fmt.Errorf("the gateway at %s: %s", a.address, r.Detail))
	}
	return found(fmt.Errorf("the gateway at %s answers %d", a.address, status))
}

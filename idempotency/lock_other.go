//go:build !unix

package idempotency

import (
	"errors"
	"os"
)

// lockFile fails: two processes writing one journal would forget requests, and
// there is no lock here that ends with its process.
func lockFile(string) (*os.File, error) {
	return nil, errors.New("journals need a Unix system")
}

package demo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/config"
)

// recordingFile makes the file that the demo is recorded in, and returns its
// absolute name. A recording that is there gives way; anything else stays.
func recordingFile(name string) (string, error) {
	if name == "" {
		f, err := os.CreateTemp("", "sluice-demo-*.jsonl")
		if err != nil {
			return "", err
		}
		return f.Name(), f.Close()
	}
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return name, nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	begin, _ := bufio.NewReader(f).Peek(len(recordingBegins))
	if len(begin) > 0 && !bytes.Equal(begin, recordingBegins) {
		return "", fmt.Errorf("%s is there already, and is no recording; name another file", name)
	}
	return name, os.Remove(name)
}

var recordingBegins = []byte(`{"kind":"`)

// recorded has every decision written to file, unless cfg names another one.
func recorded(cfg *config.Config, file string) *config.Config {
	c := *cfg
	if c.DecisionLog.Output == config.OutputOff {
		c.DecisionLog.Output, c.DecisionLog.Complete = config.Output(file), true
	}
	return &c
}

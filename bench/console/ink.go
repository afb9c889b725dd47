package console

import (
	"io"
	"os"
	"strings"

	"sluice/bench/result"
)

// ink is whether there is colour.
type ink bool

// terminal says whether w is one, and whether it shows colours.
func terminal(w io.Writer) (live bool, color ink) {
	f, file := w.(*os.File)
	if !file {
		return false, false
	}
	info, err := f.Stat()
	live = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return live, ink(live && os.Getenv("NO_COLOR") == "")
}

func (i ink) paint(code, s string) string {
	if !i {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// verdict in the colour of a light.
func (i ink) verdict(v result.Verdict) string {
	code := map[result.Verdict]string{result.Pass: "1;32", result.Missed: "1;31"}[v]
	if code == "" {
		code = "1;33"
	}
	return i.paint(code, strings.ToUpper(string(v)))
}

package strict

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// substitute replaces ${env:NAME}, ${env:NAME:-default}, ${file:path} and $$ in
// s, once. from names the replaced parts for messages, "" if there are none.
// Its errors never hold what was put in.
func (d *decoder) substitute(s string) (text, from string, err error) {
	if !strings.Contains(s, "$") {
		return s, "", nil
	}
	var out strings.Builder
	var parts []string
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			out.WriteString(s)
			return out.String(), strings.Join(parts, ""), nil
		}
		out.WriteString(s[:i])
		s = s[i:]
		switch s[1] {
		case '$':
			out.WriteByte('$')
			s = s[2:]
		case '{':
			end := strings.IndexByte(s, '}')
			if end < 0 {
				return "", "", fmt.Errorf("%s has no closing }; write ${env:NAME}, ${file:path}, or $$ for a plain dollar sign", Quote(s))
			}
			value, err := d.resolve(s[2:end])
			if err != nil {
				return "", "", err
			}
			parts = append(parts, s[:end+1])
			out.WriteString(value)
			s = s[end+1:]
		default:
			out.WriteByte('$')
			s = s[1:]
		}
	}
}

// resolve returns what the inside of one ${…} stands for.
func (d *decoder) resolve(ref string) (string, error) {
	whole := Quote("${" + ref + "}")
	scheme, rest, _ := strings.Cut(ref, ":")
	switch scheme {
	case "env":
		name, fallback, hasFallback := strings.Cut(rest, ":-")
		if !isEnvName(name) {
			return "", fmt.Errorf("%s names no environment variable; write ${env:NAME} or ${env:NAME:-default}", whole)
		}
		value, ok := d.lookupEnv(name)
		switch {
		case hasFallback && value == "":
			return fallback, nil
		case !ok:
			return "", fmt.Errorf("the environment variable %s is not set; set it, or write a default: ${env:%s:-value}", name, name)
		case !utf8.ValidString(value):
			return "", fmt.Errorf("the environment variable %s does not hold UTF-8 text", name)
		}
		return value, nil
	case "file":
		if rest == "" {
			return "", fmt.Errorf("%s names no file; write ${file:path}", whole)
		}
		return d.readFile(relative(d.src.Name, rest))
	}
	return "", fmt.Errorf("%s is not a substitution; write ${env:NAME}, ${file:path}, or $${ for a plain ${", whole)
}

func (d *decoder) lookupEnv(name string) (string, bool) {
	if d.src.LookupEnv != nil {
		return d.src.LookupEnv(name)
	}
	return os.LookupEnv(name)
}

// readFile returns the text of a file without the line ends that close it.
func (d *decoder) readFile(path string) (string, error) {
	read := d.src.ReadFile
	if read == nil {
		read = readIncluded
	}
	if !slices.Contains(d.doc.Files, path) {
		d.doc.Files = append(d.doc.Files, path)
	}
	data, err := read(path)
	if err != nil {
		// The path is in the message already, where the system adds it.
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err
		}
		return "", fmt.Errorf("the file %s cannot be read: %v", path, err)
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("the file %s does not hold UTF-8 text", path)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

func readIncluded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIncluded+1))
	if err == nil && len(data) > maxIncluded {
		err = fmt.Errorf("it is larger than %d bytes", maxIncluded)
	}
	return data, err
}

func isEnvName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
